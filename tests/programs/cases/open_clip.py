"""CLIP's contrastive loss of a small model; features of images by ViT-B-32, ViT-B-16 and RN50"""

import numpy as np
import torch

PACKAGE = "open_clip_torch"
MODELS = ("ViT-B-32", "ViT-B-16", "RN50")


def images(number, size):
    values = np.random.default_rng(0).standard_normal((number, 3, size, size)).astype("float32")
    return torch.from_numpy(values)


def build():
    import open_clip

    model = open_clip.CLIP(
        embed_dim=16,
        vision_cfg={"image_size": 32, "layers": 2, "width": 64, "patch_size": 8},
        text_cfg={
            "context_length": 12, "vocab_size": 50, "width": 32, "heads": 2, "layers": 2,
        },
    )  # fmt: skip
    criterion = open_clip.ClipLoss()
    texts = torch.from_numpy(np.random.default_rng(1).integers(1, 50, (4, 12)))

    def loss(model, images, texts):
        return criterion(*model(images, texts))

    return model, (images(4, 32), texts), loss


def more(model, inputs):
    import driver
    import open_clip

    found = {}
    for name in MODELS:
        other = open_clip.create_model(name, pretrained=None).eval()
        driver.fill(other)
        with torch.no_grad():
            found[name] = other.encode_image(images(1, 224))
            if name == "ViT-B-32":
                texts = torch.from_numpy(np.random.default_rng(2).integers(1, 400, (1, 77)))
                found["texts"] = other.encode_text(texts)
    return found
