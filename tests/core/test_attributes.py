import copy

import pytest

import flambeau
from flambeau import Tensor


class Named(Tensor):
    pass


def _with_history():
    x = flambeau.ones(3, requires_grad=True)
    x.register_hook(lambda grad: grad)
    (x * x).sum().backward()
    return x


TENSORS = {
    "plain": lambda: flambeau.ones(3),
    "a leaf with a gradient": _with_history,
    "a result": lambda: flambeau.ones(3, requires_grad=True) * 2,
    "a view": lambda: flambeau.ones(6)[:3],
    "a subclass": lambda: flambeau.ones(3).as_subclass(Named),
    "a parameter": lambda: flambeau.nn.Parameter(flambeau.ones(3)),
    "unpickled": lambda: copy.deepcopy(_with_history()),
}


@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
def test_the_dictionary_holds_what_users_set_and_nothing_else(make):
    tensor = make()
    assert vars(tensor) == {}
    tensor.label = "a"
    assert vars(tensor) == {"label": "a"}


@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
@pytest.mark.parametrize("way", ["replace", "update"])
def test_a_dictionary_given_to_another_tensor_brings_only_what_users_set(make, way):
    source, target = make(), flambeau.zeros(2)
    source.label = "a"
    if way == "replace":
        target.__dict__ = dict(vars(source))
    else:
        vars(target).update(vars(source))
    assert target.label == "a"
    assert target.tolist() == [0.0, 0.0]
    assert not target.requires_grad
    assert target.grad is None


@pytest.mark.parametrize("name", ["_cell", "_view", "_grad_fn"])
def test_nothing_in_the_dictionary_reaches_what_a_tensor_is(name):
    x = flambeau.ones(2)
    vars(x)[name] = "another"
    assert x.tolist() == [1.0, 1.0]
    assert x.grad_fn is None


def test_dictionaries_replaced_in_a_compiled_function_are_as_in_eager_mode():
    source = flambeau.ones(3)
    source.label = "a"

    def step(x, target):
        target.__dict__ = dict(vars(source))
        return x + target

    for run in (step, flambeau.compile(step)):
        target = flambeau.zeros(3)
        assert run(flambeau.ones(3), target).tolist() == [1.0, 1.0, 1.0]
        assert vars(target) == {"label": "a"}
