"""Parametrizations: what they register and undo, that failures leave no trace, compiled use."""

import copy

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import parametrize
from flambeau.nn.utils.parametrize import (
    register_parametrization,
    remove_parametrizations,
    type_before_parametrizations,
)


class Exp(nn.Module):
    def forward(self, x):
        return x.exp()

    def right_inverse(self, y):
        return y.log()


class Scale(nn.Module):
    """Has a parameter of its own, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.factor = nn.Parameter(flambeau.tensor(2.0))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.factor


class Sum(nn.Module):
    def forward(self, x):
        return x.sum(0)


def positive(layer=None):
    layer = nn.Linear(2, 2) if layer is None else layer
    with flambeau.no_grad():
        layer.weight.abs_().add_(0.1)
    return register_parametrization(layer, "weight", Exp())


def test_the_tensor_keeps_its_value():
    layer = nn.Linear(2, 2)
    with flambeau.no_grad():
        layer.weight.abs_()
    before = layer.weight.detach().clone()
    register_parametrization(layer, "weight", Exp())
    assert flambeau.allclose(layer.weight, before)
    assert flambeau.allclose(layer.parametrizations.weight.original, before.log())


def test_what_is_trained_stays_the_same_parameter():
    layer = nn.Linear(2, 2)
    weight = layer.weight
    optimizer = flambeau.optim.SGD(layer.parameters(), lr=1.0)
    positive(layer)
    assert layer.parametrizations.weight.original is weight
    layer(flambeau.ones(1, 2)).sum().backward()
    before = layer.weight.detach().clone()
    optimizer.step()
    assert (layer.weight < before).all()


def test_parameters_of_a_parametrization_are_trained_too():
    layer = register_parametrization(nn.Linear(2, 2), "weight", Scale())
    layer(flambeau.ones(1, 2)).sum().backward()
    assert layer.parametrizations.weight[0].factor.grad is not None


def test_a_refused_parametrization_leaves_the_module_alone():
    layer = nn.Linear(2, 3)
    weight, before = layer.weight, layer.weight.tolist()
    with pytest.raises(ValueError, match=r"shape, here from .*\[3, 2\].* to .*\[2\]"):
        register_parametrization(layer, "weight", Sum())
    assert type(layer) is nn.Linear
    assert layer.weight is weight
    assert weight.tolist() == before


def test_a_refused_value_leaves_the_original_alone():
    class Halves(nn.Module):
        def forward(self, x, y):
            return x + y

        def right_inverse(self, z):
            return (z / 2, z / 2) if z.sum() > 0 else (z / 2, (z / 2).double())

    layer = nn.Linear(1, 1, bias=False)
    layer.weight = nn.Parameter(flambeau.ones(1, 1))
    register_parametrization(layer, "weight", Halves())
    with pytest.raises(ValueError, match="'original1'"):
        layer.weight = -flambeau.ones(1, 1)
    assert layer.weight.item() == 1.0


def test_modules_of_one_class_are_parametrized_apart():
    parametrized, plain = positive(), nn.Linear(2, 2)
    assert type(plain) is nn.Linear
    assert type(parametrized).__name__ == "ParametrizedLinear"
    assert isinstance(parametrized, nn.Linear)
    assert type_before_parametrizations(parametrized) is nn.Linear


def test_a_copy_can_lose_what_the_original_keeps():
    layer = positive()
    other = copy.deepcopy(layer)
    remove_parametrizations(other, "weight")
    assert type(other) is nn.Linear
    assert flambeau.allclose(other.weight, layer.weight)
    assert isinstance(other.weight, nn.Parameter)
    register_parametrization(other, "bias", Scale())
    assert not parametrize.is_parametrized(layer, "bias")


def test_removing_leaves_the_computed_or_the_original_value():
    layer = positive()
    original = layer.parametrizations.weight.original
    expected = layer.weight.detach()
    remove_parametrizations(layer, "weight")
    assert layer.weight is original
    assert flambeau.allclose(layer.weight, expected)
    layer = positive()
    expected = layer.parametrizations.weight.original.detach().clone()
    remove_parametrizations(layer, "weight", leave_parametrized=False)
    assert flambeau.allclose(layer.weight, expected)


def test_a_cached_tensor_is_computed_once():
    layer = register_parametrization(nn.Linear(2, 2), "weight", Scale())
    scale = layer.parametrizations.weight[0]
    scale.calls = 0
    with parametrize.cached():
        with parametrize.cached():
            first = layer.weight
        assert layer.weight is first
    assert scale.calls == 1
    assert layer.weight is not first


def test_a_cached_tensor_is_forgotten_after_a_failure():
    layer = positive()
    with pytest.raises(ZeroDivisionError), parametrize.cached():
        before = layer.weight
        _ = 1 / 0
    with parametrize.cached():
        assert layer.weight is not before


def test_a_compiled_function_sees_the_trained_tensor():
    layer = positive()
    compiled = flambeau.compile(lambda x: layer(x))
    x = flambeau.ones(1, 2)
    assert flambeau.allclose(compiled(x), layer(x))
    with flambeau.no_grad():
        layer.parametrizations.weight.original.add_(1.0)
    assert flambeau.allclose(compiled(x), layer(x))


def test_a_compiled_function_sees_what_is_registered_and_removed():
    layer = nn.Linear(2, 2)
    compiled = flambeau.compile(layer)
    x = flambeau.ones(1, 2)
    plain = compiled(x)
    register_parametrization(layer, "weight", Exp(), unsafe=True)
    with flambeau.no_grad():
        layer.parametrizations.weight.original.fill_(0.0)
    assert flambeau.allclose(compiled(x), layer(x))
    assert not flambeau.allclose(compiled(x), plain)
    remove_parametrizations(layer, "weight")
    assert flambeau.allclose(compiled(x), layer(x))


def test_caching_in_a_compiled_function_leaves_nothing_behind():
    layer = positive()

    @flambeau.compile
    def twice(x):
        with parametrize.cached():
            return layer(layer(x))

    x = flambeau.ones(1, 2)
    with parametrize.cached():
        before = layer.weight
        assert flambeau.allclose(twice(x), layer(layer(x)))
        assert layer.weight is before


def test_states_go_round():
    layer, other = positive(), positive()
    with flambeau.no_grad():
        layer.parametrizations.weight.original.mul_(3.0)
    other.load_state_dict(layer.state_dict())
    assert flambeau.allclose(other.weight, layer.weight)


def test_the_parametrized_class_cannot_be_pickled():
    import pickle

    with pytest.raises(RuntimeError, match=r"state_dict\(\)"):
        pickle.dumps(positive())


def test_a_list_needs_parametrizations():
    with pytest.raises(ValueError, match="at least one"):
        parametrize.ParametrizationList([], flambeau.zeros(1))
