"""Layers of models that PyTorch would quantize, which compute as before they are converted."""

import pytest

import flambeau
from flambeau import nn
from flambeau.ao.nn.quantized import FloatFunctional
from flambeau.ao.quantization import DeQuantStub, QuantStub


class Twice(nn.Module):
    def forward(self, x):
        return x * 2


def test_operators_pass_through_the_module_that_looks_at_them():
    functional = nn.quantized.FloatFunctional()
    assert isinstance(functional, FloatFunctional)
    assert list(functional.state_dict()) == []
    functional.activation_post_process = Twice()
    x, y = flambeau.tensor([[-1.0, 2.0]]), flambeau.tensor([[3.0, -4.0]])
    assert functional.add(x, y).tolist() == [[4, -4]]
    assert functional.mul(x, y).tolist() == [[-6, -16]]
    assert functional.add_relu(x, y).tolist() == [[4, 0]]
    assert functional.matmul(x, y.t()).tolist() == [[-22]]
    assert functional.cat([x, y], 1).tolist() == [[-2, 4, 6, -8]]
    # As in PyTorch, numbers are not looked at.
    assert functional.add_scalar(x, 1).tolist() == [[0, 3]]
    assert functional.mul_scalar(x, 3).tolist() == [[-3, 6]]
    with pytest.raises(RuntimeError, match="one of its operators"):
        functional(x)


def test_stubs_give_what_they_get():
    x = flambeau.ones(2)
    net = nn.Sequential(QuantStub("config"), DeQuantStub())
    assert net(x) is x
    assert net[0].qconfig == "config"
    assert not hasattr(net[1], "qconfig")
    assert flambeau.quantization.QuantStub is QuantStub


@pytest.mark.parametrize("room", ["ao.quantization", "quantization"])
def test_the_rest_says_what_to_do(room):
    module = flambeau.ao.quantization if room == "ao.quantization" else flambeau.quantization
    with pytest.raises(AttributeError, match="no quantized tensors"):
        _ = module.quantize_dynamic
