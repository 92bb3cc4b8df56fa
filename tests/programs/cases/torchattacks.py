"""training on images that PGD has changed; what 14 other attacks make of images"""

import numpy as np
import torch

PACKAGE = "torchattacks"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.head = torch.nn.Linear(4 * 36, 10)

    def forward(self, images):
        return self.head(self.conv(images).tanh().flatten(1))


def build():
    import torchattacks

    images = np.random.default_rng(0).random((2, 3, 8, 8)).astype("float32")

    def loss(model, images, labels):
        attack = torchattacks.PGD(model, eps=0.1, alpha=0.03, steps=3, random_start=False)
        return torch.nn.functional.cross_entropy(model(attack(images, labels)), labels)

    return Net(), (torch.from_numpy(images), torch.tensor([1, 3])), loss


def more(model, inputs):
    import torchattacks

    images, labels = inputs
    model.eval()
    found = {}
    for name, options in {
        "FGSM": {}, "BIM": {"steps": 3}, "PGD": {"steps": 3}, "PGDL2": {"steps": 3},
        "MIFGSM": {"steps": 3}, "NIFGSM": {"steps": 3}, "SINIFGSM": {"steps": 2},
        "TIFGSM": {"steps": 2, "diversity_prob": 0.0}, "CW": {"steps": 5}, "DeepFool": {"steps": 5},
        "JSMA": {"gamma": 0.02}, "EADL1": {"max_iterations": 10, "binary_search_steps": 1},
        "APGD": {"steps": 5}, "TPGD": {"steps": 3}, "PIFGSM": {"max_epsilon": 0.1},
    }.items():  # fmt: skip
        torch.manual_seed(0)
        found[name] = getattr(torchattacks, name)(model, **options)(images, labels)
    targeted = torchattacks.BIM(model, steps=3)
    targeted.set_mode_targeted_least_likely()
    found["targeted"] = targeted(images, labels)
    normalized = torchattacks.FGSM(model)
    normalized.set_normalization_used(mean=[0.5, 0.5, 0.5], std=[0.2, 0.2, 0.2])
    found["normalized"] = normalized(2 * images - 1, labels)
    return found
