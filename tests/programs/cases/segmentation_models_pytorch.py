"""a U-Net on resnet18 with a Dice loss; FPN and DeepLabV3+; other losses, scores by class"""

import numpy as np
import torch

PACKAGE = "segmentation-models-pytorch"


def build():
    import segmentation_models_pytorch as smp

    model = smp.Unet("resnet18", encoder_weights=None, classes=3, encoder_depth=3,
                     decoder_channels=(16, 8, 8))  # fmt: skip
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.standard_normal((2, 3, 32, 32)).astype("float32"))
    dice = smp.losses.DiceLoss("multiclass")

    def loss(model, images, masks):
        return dice(model(images), masks)

    return model, (images, torch.from_numpy(rng.integers(0, 3, (2, 32, 32)))), loss


def more(model, inputs):
    import driver
    import segmentation_models_pytorch as smp

    images, masks = inputs
    found = {}
    for name in ("FPN", "DeepLabV3Plus"):
        other = getattr(smp, name)("resnet18", encoder_weights=None, classes=3)
        driver.fill(other)
        with torch.no_grad():
            found[name] = other.eval()(images)
    outputs = found["FPN"]
    for name in ("JaccardLoss", "FocalLoss", "TverskyLoss", "LovaszLoss"):
        found[name] = getattr(smp.losses, name)("multiclass")(outputs, masks)
    counts = smp.metrics.get_stats(outputs.argmax(1), masks, mode="multiclass", num_classes=3)
    found["overlap"] = smp.metrics.iou_score(*counts, reduction="macro")
    found["f1"] = smp.metrics.f1_score(*counts, reduction="micro-imagewise")
    return found
