"""structural similarity as a loss; 16 measures of images, and the gradients of seven"""

import numpy as np
import torch

PACKAGE = "piq"
MEASURES = (
    "psnr", "ssim", "information_weighted_ssim", "vif_p", "fsim", "gmsd", "multi_scale_gmsd", "vsi",
    "haarpsi", "mdsi", "dss", "srsim", "total_variation",
)  # fmt: skip
DIFFERENTIATED = ("ssim", "vif_p", "fsim", "gmsd", "haarpsi", "mdsi", "dss")


def images(seed, size=48):
    values = np.random.default_rng(seed).random((2, 3, size, size)).astype("float32")
    return torch.from_numpy(values)


def build():
    import piq

    model = torch.nn.Conv2d(3, 3, 3, padding=1)
    criterion = piq.SSIMLoss(kernel_size=7, data_range=1.0)

    def loss(model, first, second):
        return criterion(torch.sigmoid(model(first)), second)

    return model, (images(0), images(1)), loss


def more(model, inputs):
    import piq

    found = {}
    first, second = images(2, 176), 0.7 * images(2, 176) + 0.3 * images(3, 176)
    for name in MEASURES:
        given = first.clone().requires_grad_(name in DIFFERENTIATED)
        pair = (given,) if name == "total_variation" else (given, second)
        found[name] = getattr(piq, name)(*pair)
        if name in DIFFERENTIATED:
            found[name].sum().backward()
            found[f"gradient of {name}"] = given.grad
    found["multi_scale_ssim"] = piq.multi_scale_ssim(first, second, kernel_size=7)
    one = torch.from_numpy(np.random.default_rng(4).random((40, 16)).astype("float32"))
    other = torch.from_numpy(np.random.default_rng(5).random((40, 16)).astype("float32"))
    found["fid"] = piq.FID()(one, other)
    found["precision and recall"] = torch.stack(list(piq.PR()(one, other)))
    return found
