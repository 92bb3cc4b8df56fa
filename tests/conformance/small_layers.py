"""Small layers and inputs of either library, the same in both."""

import numpy as np
import torch

from flambeau.core.values.convert import make


def tensor(lib, array):
    array = np.array(array)
    array = array.astype("f4") if array.dtype == np.float64 else array
    return torch.from_numpy(array) if lib is torch else make(array)


def normal(lib, *shape, seed=0):
    return tensor(lib, np.random.default_rng(seed).standard_normal(shape).astype("f4"))


def layer_of(lib, kind):
    lib.manual_seed(3)
    return {
        "linear": lambda: lib.nn.Linear(4, 3),
        "wide": lambda: lib.nn.Linear(3, 5),
        "square": lambda: lib.nn.Linear(4, 4),
        "convolution": lambda: lib.nn.Conv1d(2, 3, 2),
        "transposed": lambda: lib.nn.ConvTranspose1d(2, 3, 2),
    }[kind]()


INPUTS = {
    "linear": (2, 4), "wide": (2, 3), "square": (2, 4), "convolution": (2, 2, 4),
    "transposed": (2, 2, 4),
}  # fmt: skip
