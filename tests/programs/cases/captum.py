"""attributions of a small network by 12 methods, for inputs, layers and neurons"""

import numpy as np
import torch

PACKAGE = "captum"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 3, 3)
        self.relu = torch.nn.ReLU()
        self.head = torch.nn.Linear(48, 4)

    def forward(self, images):
        return self.head(self.relu(self.conv(images)).flatten(1))


def build():
    images = np.random.default_rng(0).standard_normal((2, 1, 6, 6)).astype("float32")

    def loss(model, images, targets):
        return torch.nn.functional.cross_entropy(model(images), targets)

    return Net(), (torch.from_numpy(images), torch.tensor([1, 3])), loss


def more(model, inputs):
    from captum import attr

    images, targets = inputs
    model.eval()
    found = {}
    for name in (
        "IntegratedGradients", "Saliency", "InputXGradient", "DeepLift", "GuidedBackprop",
        "Deconvolution", "FeatureAblation", "LRP",
    ):  # fmt: skip
        method = getattr(attr, name)(model)
        found[name] = method.attribute(images.clone().requires_grad_(), target=targets)
    occlusion = attr.Occlusion(model)
    found["Occlusion"] = occlusion.attribute(images, (1, 3, 3), strides=(1, 3, 3), target=targets)
    layer = attr.LayerGradCam(model, model.conv)
    found["LayerGradCam"] = layer.attribute(images, target=targets)
    found["interpolated"] = attr.LayerAttribution.interpolate(found["LayerGradCam"], (6, 6))
    found["LayerConductance"] = attr.LayerConductance(model, model.conv).attribute(
        images, target=targets
    )
    found["NeuronGradient"] = attr.NeuronGradient(model, model.conv).attribute(
        images.clone().requires_grad_(), (0, 1, 1)
    )
    return found
