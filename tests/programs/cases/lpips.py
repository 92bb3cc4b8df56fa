"""perceptual distances by AlexNet, a step of its loss; by VGG and SqueezeNet; on unlike sizes"""

import numpy as np
import torch

PACKAGE = "lpips"
REQUIRES = ["torchvision"]


def images(seed, size=64):
    values = np.random.default_rng(seed).random((2, 3, size, size)).astype("float32")
    return torch.from_numpy(2 * values - 1)


def network(name, **arguments):
    import lpips

    return lpips.LPIPS(net=name, pretrained=False, pnet_rand=True, verbose=False, **arguments)


def build():
    def loss(model, first, second):
        return model(first, second).mean()

    model = network("alex", pnet_tune=True, use_dropout=False)
    return model, (images(0), images(1)), loss


def more(model, inputs):
    import driver

    found = {}
    for name, size in {"vgg": 32, "squeeze": 48}.items():
        other = network(name).eval()
        driver.fill(other)
        with torch.no_grad():
            found[name] = other(images(2, size), images(3, size))
    whole = network("alex", spatial=True).eval()
    driver.fill(whole)
    first = images(4).requires_grad_()
    distances = whole(first, images(5))
    distances.sum().backward()
    return found | {"of each place": distances, "gradient of images": first.grad}
