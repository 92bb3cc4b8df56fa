"""structural similarity, of one and of several scales, as a loss; images, volumes, gradients"""

import numpy as np
import torch

PACKAGE = "pytorch-msssim"


def drawn(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).random(shape).astype("float32"))


def build():
    import pytorch_msssim

    model = torch.nn.Conv2d(3, 3, 3, padding=1)
    one = pytorch_msssim.SSIM(data_range=1.0, win_size=7, channel=3)
    several = pytorch_msssim.MS_SSIM(data_range=1.0, win_size=3, channel=3)

    def loss(model, first, second):
        found = torch.sigmoid(model(first))
        return 2 - one(found, second) - several(found, second)

    return model, (drawn(0, 2, 3, 48, 48), drawn(1, 2, 3, 48, 48)), loss


def more(model, inputs):
    import pytorch_msssim

    first = drawn(2, 2, 3, 176, 170).requires_grad_()
    second = 0.6 * first.detach() + 0.4 * drawn(3, 2, 3, 176, 170)
    found = {
        "images": pytorch_msssim.ms_ssim(first, second, data_range=1.0, size_average=False),
        "three scales": pytorch_msssim.ms_ssim(
            255 * first, 255 * second, weights=[0.2, 0.3, 0.5], win_size=5, win_sigma=1.0
        ),
        "not negative": pytorch_msssim.ssim(
            first, 1 - first.detach(), data_range=1.0, nonnegative_ssim=True, size_average=False
        ),
    }
    found["gradient"] = torch.autograd.grad(sum(each.sum() for each in found.values()), first)[0]
    volumes = drawn(4, 1, 1, 14, 15, 16).requires_grad_()
    found["volumes"] = pytorch_msssim.ssim(
        volumes, volumes.detach().sqrt(), data_range=1.0, win_size=5
    )
    (found["gradient of volumes"],) = torch.autograd.grad(found["volumes"], volumes)
    return found
