"""Parameters and buffers are tensors that modules recognize."""

import copy
import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.core.values.tensor import PLAIN_TYPES


class Special(flambeau.Tensor):
    """A tensor class of a user's."""


class Named(nn.Parameter):
    """A parameter class of a user's."""


def test_parameter_shares_the_elements_and_leaves_the_tensor_alone():
    data = flambeau.ones(2)
    parameter = nn.Parameter(data)
    data[0] = 5.0
    assert parameter.tolist() == [5.0, 1.0]
    assert parameter.requires_grad
    assert not data.requires_grad


def test_parameter_of_a_result_is_a_leaf():
    parameter = nn.Parameter(flambeau.ones(2, requires_grad=True) * 2)
    assert parameter.is_leaf
    (parameter * 3).sum().backward()
    assert parameter.grad.tolist() == [3.0, 3.0]


def test_operators_on_a_parameter_give_plain_tensors():
    parameter = nn.Parameter(flambeau.ones(2))
    for result in (parameter + 1, parameter[0], parameter.detach(), parameter.data):
        assert type(result) is flambeau.Tensor


def test_custom_class_is_flagged_and_kept():
    parameter = nn.Parameter(flambeau.ones(2).as_subclass(Special))
    assert type(parameter) is Special
    assert isinstance(parameter, nn.Parameter)
    assert not isinstance(parameter, Named)
    module = nn.Module()
    module.weight = parameter
    assert module._parameters["weight"] is parameter


def test_instances_are_told_apart():
    parameter, named, buffer = (
        nn.Parameter(flambeau.ones(1)),
        Named(flambeau.ones(1)),
        nn.Buffer(flambeau.ones(1)),
    )
    assert isinstance(named, nn.Parameter)
    assert not isinstance(parameter, Named)
    assert isinstance(buffer, nn.Buffer)
    for other in (flambeau.ones(1), buffer, 3, None):
        assert not isinstance(other, nn.Parameter)
    for other in (flambeau.ones(1), parameter, 3, None):
        assert not isinstance(other, nn.Buffer)


def test_dispatcher_takes_parameters_for_tensors():
    assert {nn.Parameter, nn.Buffer} <= PLAIN_TYPES


def test_deep_copy_is_independent_and_remembered():
    parameter = nn.Parameter(flambeau.ones(2), requires_grad=False)
    memo = {}
    other = copy.deepcopy(parameter, memo)
    assert copy.deepcopy(parameter, memo) is other
    other.data.fill_(5.0)
    assert parameter.tolist() == [1.0, 1.0]
    assert not other.requires_grad


@pytest.mark.parametrize("cls", [nn.Parameter, Named])
def test_pickle_keeps_class_flag_and_attributes(cls):
    parameter = cls(flambeau.tensor([1.0, 2.0]), requires_grad=False)
    parameter.note = "kept"
    other = pickle.loads(pickle.dumps(parameter))
    assert type(other) is cls
    assert other.tolist() == [1.0, 2.0]
    assert not other.requires_grad
    assert other.note == "kept"


def test_pickle_of_a_parameter_on_meta():
    other = pickle.loads(pickle.dumps(nn.Parameter(flambeau.empty(2, 3, device="meta"))))
    assert other.is_meta
    assert other.shape == (2, 3)


def test_shallow_copy_shares_the_elements():
    parameter = nn.Parameter(flambeau.ones(2))
    copy.copy(parameter).data.fill_(5.0)
    assert parameter.tolist() == [5.0, 5.0]


def test_empty_defaults():
    assert nn.Parameter().shape == (0,)
    assert nn.Buffer().shape == (0,)
    assert nn.Buffer().persistent


def test_repr_says_that_it_is_a_parameter():
    assert repr(nn.Parameter(flambeau.ones(1))) == (
        "Parameter containing:\ntensor([1.], requires_grad=True)"
    )


@pytest.mark.parametrize("kind", [nn.Parameter, nn.Buffer])
@pytest.mark.parametrize("data", [[1.0], 3, "text"])
def test_what_is_no_tensor_is_refused(kind, data):
    with pytest.raises(TypeError, match=rf"{kind.__name__} .* {type(data).__name__}; .*tensor\(\)"):
        kind(data)


def test_integers_cannot_require_grad():
    with pytest.raises(RuntimeError, match="int64"):
        nn.Parameter(flambeau.tensor([1]))
    assert not nn.Parameter(flambeau.tensor([1]), requires_grad=False).requires_grad


def test_custom_class_whose_detach_loses_it_is_named():
    class Lossy(flambeau.Tensor):
        def detach(self):
            return flambeau.ones(1)

    with pytest.raises(RuntimeError, match=r"Lossy: its detach\(\) gives a Tensor"):
        nn.Parameter(flambeau.ones(1).as_subclass(Lossy))
