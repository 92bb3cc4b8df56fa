"""The older weight normalization: attributes, hooks, compiled use, and the state it shares."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import parametrizations, remove_weight_norm, weight_norm

pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm is deprecated:FutureWarning")


def test_length_and_direction_are_parameters():
    layer = weight_norm(nn.Linear(4, 3))
    assert sorted(name for name, _ in layer.named_parameters()) == ["bias", "weight_g", "weight_v"]
    assert layer.weight_g.shape == (3, 1)
    assert not isinstance(layer.weight, nn.Parameter)


def test_it_is_deprecated():
    with pytest.warns(FutureWarning, match="parametrizations.weight_norm"):
        weight_norm(nn.Linear(4, 3))


def test_the_weight_follows_its_length():
    layer = weight_norm(nn.Linear(4, 3))
    x = flambeau.ones(1, 4)
    before = layer(x) - layer.bias
    with flambeau.no_grad():
        layer.weight_g.mul_(2.0)
    assert flambeau.allclose(layer(x) - layer.bias, 2 * before, atol=1e-6)


def test_a_compiled_function_sees_the_length():
    layer = weight_norm(nn.Linear(4, 3))
    compiled = flambeau.compile(lambda x: layer(x))
    x = flambeau.ones(1, 4)
    for _ in range(2):
        assert flambeau.allclose(compiled(x), layer(x))
        with flambeau.no_grad():
            layer.weight_g.mul_(2.0)


def test_removing_keeps_the_weight():
    layer = weight_norm(nn.Linear(4, 3))
    expected = layer.weight.detach().clone()
    remove_weight_norm(layer)
    assert isinstance(layer.weight, nn.Parameter)
    assert flambeau.allclose(layer.weight, expected)
    assert not layer._forward_pre_hooks


def test_its_state_is_that_of_the_parametrization():
    old = weight_norm(nn.Linear(4, 3))
    new = parametrizations.weight_norm(nn.Linear(4, 3))
    new.load_state_dict(old.state_dict())
    assert flambeau.allclose(new.weight, old.weight)


def test_a_weight_without_shape_is_refused():
    with pytest.raises(ValueError, match="no shape yet"):
        weight_norm(nn.LazyLinear(3))
