"""Every layer against PyTorch's: its repr, its state, its results, its gradients, its buffers.

Both are built after the same seed. Then each is called in training, its outputs are differentiated,
and it is called in evaluation.
"""

import pytest
import torch

from tests.conformance.layers import attention, elementwise, losses, maps, pooling
from tests.conformance.layers.table import ROWS, check

TOPICS = (attention, elementwise, losses, maps, pooling)


@pytest.mark.parametrize("name", ROWS)
def test_layer_is_pytorchs(name):
    check(ROWS[name])


def test_every_layer_of_pytorch_is_in_the_table():
    # These are compared in files of their own.
    elsewhere = {
        "Container", "DataParallel", "GRU", "GRUCell", "LSTM", "LSTMCell", "Module", "ModuleDict",
        "ModuleList", "ParameterDict", "ParameterList", "RNN", "RNNBase", "RNNCell", "RNNCellBase",
        "Sequential",
    }  # fmt: skip
    names = {
        name
        for name, value in vars(torch.nn).items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module)
    }
    missing = names - elsewhere - {name.split("-")[0] for name in ROWS}
    assert missing == {"CrossMapLRN2d", "NLLLoss2d"}
