"""What users set on tensors is as it is eagerly inside compiled functions, whoever asks for it."""

import copy

import pytest

import flambeau
from flambeau.compile.errors import CompileError
from tests.compile.following import MAY_RUN_EAGERLY, X, check

READERS = {
    "attribute": lambda t, x: x * (t.rate if hasattr(t, "rate") else 1.0),
    "getattr": lambda t, x: x * getattr(t, "rate", 1.0),
    "vars": lambda t, x: x * vars(t).get("rate", 1.0),
    "__dict__": lambda t, x: x * t.__dict__.get("rate", 1.0),
    "dir": lambda t, x: x * (t.rate if "rate" in dir(t) else 1.0),
    "deepcopy": lambda t, x: x * getattr(copy.deepcopy(t), "rate", 1.0),
}
ABSENT = object()


def put(tensor, value):
    if value is ABSENT:
        del tensor.rate
    else:
        tensor.rate = value


@pytest.mark.parametrize("name", READERS)
def test_attributes_of_arguments_are_seen(name):
    read, given = READERS[name], flambeau.ones(2)
    run = flambeau.compile(lambda t, x: read(t, x))
    for value in (2.0, 2.0, 7.0, ABSENT, 2.0):
        put(given, value)
        assert flambeau.equal(run(given, X), read(given, X))
    assert run.program_count == 3
    assert vars(given).keys() == vars(run(given, X)).keys() | {"rate"}


@pytest.mark.parametrize("name", READERS)
def test_attributes_of_tensors_outside_are_seen(name):
    read, held = READERS[name], flambeau.ones(2)
    for value in (2.0, ABSENT, 7.0):
        check(lambda x: read(held, x), lambda value=value: put(held, value))


def test_what_is_not_asked_for_may_change():
    given = flambeau.ones(2)
    given.rate = 2.0
    run = flambeau.compile(lambda t, x: x * t.rate)
    for i in range(3):
        given.step = i
        run(given, X)
    assert run.program_count == 1


def test_looking_at_attributes_sets_none():
    given = flambeau.ones(2)
    given.rate, given.mask = 2.0, X * 3

    def function(t, x):
        return x * sum(each for each in vars(t).values() if isinstance(each, float)) * t.mask

    run = flambeau.compile(function)
    assert flambeau.equal(run(given, X), function(given, X))
    del given.rate
    assert flambeau.equal(run(given, X), function(given, X))
    assert not hasattr(given, "rate")


def test_attributes_that_are_set_first_hide_those_of_the_argument():
    def function(t, x):
        t.tag = "inside"
        return x * len(vars(t)["tag"])

    given = flambeau.ones(2)
    given.tag = "outside"
    assert flambeau.equal(flambeau.compile(function)(given, X), X * 6)
    assert given.tag == "inside"


def test_views_among_the_arguments_cannot_be_detached_in_place():
    def function(t):
        t.detach_()
        return t * 2

    run, base = flambeau.compile(function), flambeau.ones(4)
    assert run(flambeau.ones(2)).tolist() == [2.0, 2.0]
    for view in (base[:2], (flambeau.ones(4, requires_grad=True) * 1)[:2]):
        for each in (function, run):
            with pytest.raises(RuntimeError, match="cannot detach a view in place"):
                each(view)
    assert run(flambeau.ones(2)).tolist() == [2.0, 2.0]


@MAY_RUN_EAGERLY
def test_arguments_that_share_elements_of_a_result_have_gradients_of_gradients():
    def function(a, b):
        a.mul_(2.0)
        return (a * b).sum()

    def gradients(run):
        leaf = flambeau.ones(4, requires_grad=True)
        base = leaf * 1
        (grad,) = flambeau.autograd.grad(run(base[:2], base[1:3]), leaf, create_graph=True)
        (again,) = flambeau.autograd.grad(grad.square().sum(), leaf)
        return grad.tolist(), again.tolist()

    assert gradients(flambeau.compile(function)) == gradients(function)
    with pytest.raises(CompileError, match="writes to elements that two of its tensors share"):
        gradients(flambeau.compile(function, fullgraph=True))
