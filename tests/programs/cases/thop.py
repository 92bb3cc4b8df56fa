"""operations and parameters that `profile` counts of two networks, one with a rule of its own"""

import numpy as np
import torch

PACKAGE = "thop"


class Scale(torch.nn.Module):
    def forward(self, values):
        return 2 * values


def build():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(4),
        torch.nn.PReLU(),
        Scale(),
        torch.nn.MaxPool2d(2),
        torch.nn.ConvTranspose2d(4, 2, 2, stride=2),
        torch.nn.AdaptiveAvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 3),
        torch.nn.LogSoftmax(-1),
    )
    images = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype("float32")

    def loss(model, images):
        return -model(images)[:, 1].mean()

    return model, (torch.from_numpy(images),), loss


def more(model, inputs):
    from thop import clever_format, profile

    def count_scale(module, given, found):
        module.total_ops += torch.DoubleTensor([found.numel()])

    plain = profile(model, inputs, verbose=False)
    ruled = profile(model, inputs, custom_ops={Scale: count_scale}, verbose=False)
    *_, layers = profile(model, inputs, verbose=False, ret_layer_info=True)
    recurrent = profile(
        torch.nn.LSTM(4, 5, num_layers=2, batch_first=True), (torch.zeros(2, 3, 4),), verbose=False
    )
    return {
        "plain": torch.tensor(plain),
        "ruled": torch.tensor(ruled),
        "recurrent": torch.tensor(recurrent),
        "layers": torch.tensor([each[:2] for each in layers.values()]),
        "text": torch.tensor(list(" ".join(clever_format(plain, "%.3f")).encode())),
        "names": torch.tensor(len(model.state_dict())),
    }
