"""patches of images by `rearrange`, layers `Rearrange` and `Reduce`, `einsum`"""

import numpy as np
import torch

PACKAGE = "einops"


def build():
    from einops.layers.torch import Rearrange, Reduce

    model = torch.nn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
        torch.nn.Linear(48, 16),
        torch.nn.GELU(),
        Reduce("b n d -> b d", "mean"),
        torch.nn.Linear(16, 3),
    )
    images = np.random.default_rng(0).standard_normal((4, 3, 8, 8)).astype("float32")

    def loss(model, images):
        return model(images).square().mean()

    return model, (torch.from_numpy(images),), loss


def more(model, inputs):
    from einops import einsum, pack, rearrange, reduce, repeat, unpack

    (images,) = inputs
    packed, shapes = pack([images, images[:, 0]], "b *")
    return {
        "rearrange": rearrange(images, "b c h w -> (b h) w c"),
        "reduce": reduce(images, "b c h w -> c", "max"),
        "repeat": repeat(images[0, 0], "h w -> h k w", k=3),
        "einsum": einsum(images, images, "b c h w, b d h w -> b c d"),
        "unpacked": unpack(packed, shapes, "b *")[0],
    }
