"""what `summary` counts of a network with convolutions, a recurrent layer and shared weights"""

import sys

import numpy as np
import torch

PACKAGE = "torchinfo"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4))
        self.rnn = torch.nn.GRU(16, 8, batch_first=True)
        self.norm = torch.nn.LayerNorm(8)
        self.head = torch.nn.Linear(8, 3)
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, images):
        found = self.conv(images).relu().flatten(2)
        values, _ = self.rnn(found)
        return self.head(self.norm(self.norm(values[:, -1]))) * self.scale


def build():
    images = np.random.default_rng(0).standard_normal((2, 1, 6, 6)).astype("float32")

    def loss(model, images, targets):
        return torch.nn.functional.cross_entropy(model(images), targets)

    return Net(), (torch.from_numpy(images), torch.tensor([1, 2])), loss


def more(model, inputs):
    from torchinfo import summary

    (images, _) = inputs
    columns = ("input_size", "output_size", "num_params", "kernel_size", "mult_adds", "trainable")
    # The bytes of inputs count the objects of Python too that hold them.
    held = sys.getsizeof(torch.UntypedStorage(0))
    found = {}
    for name, said in {
        "size": summary(model, input_size=(2, 1, 6, 6), verbose=0, col_names=columns),
        "data": summary(model, input_data=images, verbose=0, depth=1, row_settings=["var_names"]),
        "bare": summary(model, verbose=0),
        "train": summary(model, input_data=[images], verbose=0, mode="train", device="cpu"),
    }.items():
        counts = [
            said.total_params, said.trainable_params, said.total_mult_adds,
            max(0, (said.total_input or 0) - held), said.total_output_bytes, said.total_param_bytes,
        ]  # fmt: skip
        found[name] = torch.tensor([float(each or 0) for each in counts])
        found[f"{name} text"] = torch.tensor(list(str(said).encode()))
        layers = [each.output_size for each in said.summary_list]
        found[f"{name} sizes"] = torch.tensor([size for each in layers for size in each or [0]])
    return found
