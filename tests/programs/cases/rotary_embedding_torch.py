"""attention with rotary embeddings: loss; those of images, with xPos, and for one token more"""

import numpy as np
import torch

PACKAGE = "rotary-embedding-torch"


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        from rotary_embedding_torch import RotaryEmbedding

        self.rotary = RotaryEmbedding(dim=4, learned_freq=True)
        self.project = torch.nn.Linear(16, 48)

    def forward(self, tokens):
        queries, keys, values = (
            each.unflatten(-1, (2, 8)).transpose(1, 2) for each in self.project(tokens).chunk(3, -1)
        )
        queries, keys = map(self.rotary.rotate_queries_or_keys, (queries, keys))
        return torch.nn.functional.scaled_dot_product_attention(queries, keys, values)


def build():
    tokens = np.random.default_rng(0).standard_normal((2, 6, 16)).astype("float32")

    def loss(model, tokens):
        return (model(tokens) - 1).square().mean()

    return Attention(), (torch.from_numpy(tokens),), loss


def more(model, inputs):
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    (tokens,) = inputs
    heads = tokens.unflatten(-1, (2, 8)).transpose(1, 2)
    plain = RotaryEmbedding(dim=4)
    far = RotaryEmbedding(dim=4, use_xpos=True)
    pixels = RotaryEmbedding(dim=4, freqs_for="pixel", max_freq=10)
    found = {
        "all": plain.rotate_queries_or_keys(heads),
        "later": plain.rotate_queries_or_keys(heads[:, :, 3:4], offset=3),
        "interpolated": RotaryEmbedding(dim=4, interpolate_factor=2.0)(torch.arange(6)),
    }
    found["queries"], found["keys"] = far.rotate_queries_and_keys(heads, heads)
    short, all_of_them = plain.rotate_queries_with_cached_keys(heads[:, :, -1:], heads)
    found["short"], found["cached"] = short, all_of_them
    axes = pixels.get_axial_freqs(2, 3)
    image = tokens.reshape(2, 6, 16).unflatten(1, (2, 3))
    found["image"] = apply_rotary_emb(axes, image)
    return found
