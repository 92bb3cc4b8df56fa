"""a decoder with rotary embeddings: loss, and text that it generates"""

import numpy as np
import torch

PACKAGE = "x-transformers"


def build():
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=16, depth=2, heads=2, attn_dim_head=8, rotary_pos_emb=True)
    model = AutoregressiveWrapper(
        TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=layers)
    )
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 20, (2, 12)))

    def loss(model, tokens):
        return model(tokens)

    return model, (tokens,), loss


def more(model, inputs):
    (tokens,) = inputs
    return {"text": model.generate(tokens[:, :3], 6, temperature=0.0)}
