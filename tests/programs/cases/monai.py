"""a U-Net of volumes with a Dice loss; transforms, a sliding window, scores, another network"""

import numpy as np
import torch

PACKAGE = "monai"
REQUIRES = ["scipy"]


def build():
    from monai.losses import DiceCELoss
    from monai.networks.nets import UNet

    model = UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16),
                 strides=(2, 2), num_res_units=1)  # fmt: skip
    rng = np.random.default_rng(0)
    volumes = torch.from_numpy(rng.standard_normal((1, 1, 16, 16, 16)).astype("float32"))
    function = DiceCELoss(to_onehot_y=True, softmax=True)

    def loss(model, volumes, masks):
        return function(model(volumes), masks)

    return model, (volumes, torch.from_numpy(rng.integers(0, 2, (1, 1, 16, 16, 16)))), loss


def more(model, inputs):
    from monai import transforms
    from monai.inferers import sliding_window_inference
    from monai.losses import DiceLoss, FocalLoss
    from monai.metrics import DiceMetric, HausdorffDistanceMetric

    volumes, masks = inputs
    model.eval()
    found = {}
    with torch.no_grad():
        outputs = model(volumes)
        found["by windows"] = sliding_window_inference(
            volumes, (8, 8, 8), 2, model, overlap=0.25, mode="gaussian"
        )
    model.train()
    found["dice"] = DiceLoss(softmax=True, to_onehot_y=True)(outputs, masks)
    found["focal"] = FocalLoss(to_onehot_y=True)(outputs, masks)
    chosen = transforms.AsDiscrete(argmax=True, to_onehot=2)(outputs[0])[None]
    known = transforms.AsDiscrete(to_onehot=2)(masks[0])[None]
    score = DiceMetric(include_background=True)
    score(chosen, known)
    found["score"] = score.aggregate()
    distance = HausdorffDistanceMetric(include_background=True)
    distance(chosen, known)
    found["distance"] = distance.aggregate()
    several = transforms.Compose([
        transforms.ScaleIntensity(), transforms.Resize((12, 12, 12)), transforms.Rotate90(),
        transforms.Flip(0), transforms.GaussianSmooth(1.0), transforms.Zoom(1.5),
        transforms.Affine(rotate_params=(0.2, 0.1, 0.0), translate_params=(1, 0, 0),
                          padding_mode="zeros", image_only=True),
    ])  # fmt: skip
    found["transformed"] = several(volumes[0])
    loader = transforms.Compose([
        transforms.NormalizeIntensityd("image"),
        transforms.SpatialPadd(["image", "mask"], (18,) * 3),
        transforms.CenterSpatialCropd(["image", "mask"], (14,) * 3),
    ])  # fmt: skip
    both = loader({"image": volumes[0], "mask": masks[0]})
    found["image"], found["mask"] = both["image"], both["mask"]
    return found
