"""a Perceiver of images: loss; one with gates, Perceiver IO, a language model: gradients"""

import numpy as np
import torch

PACKAGE = "perceiver-pytorch"
SMALL = {
    "num_latents": 4, "latent_dim": 8, "cross_heads": 1, "latent_heads": 2, "cross_dim_head": 8,
    "latent_dim_head": 4,
}  # fmt: skip


def drawn(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def perceiver(kind, **options):
    """A small Perceiver of images."""
    return kind(
        input_channels=3, input_axis=2, num_freq_bands=3, max_freq=8.0, depth=2, num_classes=4,
        **SMALL, **options,
    )  # fmt: skip


def build():
    from perceiver_pytorch import Perceiver

    model = perceiver(Perceiver, weight_tie_layers=True, self_per_cross_attn=2)

    def loss(model, images, labels):
        return torch.nn.functional.cross_entropy(model(images), labels)

    return model, (drawn(0, 2, 6, 6, 3), torch.tensor([1, 3])), loss


def more(model, inputs):
    import driver
    from perceiver_pytorch import PerceiverIO, PerceiverLM, gated

    images, _ = inputs
    model.eval()
    mask = (torch.arange(36) < 20).reshape(6, 6).expand(2, 6, 6)
    found = {
        "logits": model(images), "embeddings": model(images, return_embeddings=True),
        "masked": model(images, mask=mask),
    }  # fmt: skip

    def note(name, module, *given, **options):
        driver.fill(module)
        found[name] = module(*given, **options)
        found[name].square().mean().backward()
        norms = [each.grad.norm() for each in module.parameters() if each.grad is not None]
        found[f"gradients, {name}"] = torch.stack(norms)

    note("gated", perceiver(gated.Perceiver), images)
    io = PerceiverIO(dim=6, queries_dim=5, logits_dim=3, depth=2, decoder_ff=True, **SMALL)
    note("IO", io, drawn(1, 2, 7, 6), queries=drawn(2, 4, 5))
    text = PerceiverLM(num_tokens=20, dim=8, max_seq_len=16, depth=1, **SMALL)
    words = torch.from_numpy(np.random.default_rng(3).integers(0, 20, (2, 10)))
    note("text", text, words, mask=torch.arange(10) < torch.tensor([[6], [10]]))
    return found
