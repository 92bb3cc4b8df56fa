"""ViT and SimpleViT"""

import numpy as np
import torch

PACKAGE = "vit-pytorch"


def build():
    from vit_pytorch import ViT

    model = ViT(
        image_size=16, patch_size=4, num_classes=5, dim=16, depth=2, heads=2, mlp_dim=32,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.standard_normal((2, 3, 16, 16)).astype("float32"))
    targets = torch.tensor([1, 3])

    def loss(model, images, targets):
        return torch.nn.functional.cross_entropy(model(images), targets)

    return model, (images, targets), loss


def more(model, inputs):
    return {"logits": model.eval()(inputs[0])}
