"""Attributes of every kind of object: each way to read one is seen; others may change."""

import copy
import operator
import types

import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileError
from tests.compile.following import MAY_RUN_EAGERLY, X, check

KINDS = {
    "object": types.SimpleNamespace,
    "module of Python": lambda: types.ModuleType("held"),
    "function": lambda: lambda: None,
    "layer": lambda: nn.Linear(4, 3),
    "tensor": lambda: flambeau.ones(2),
}


# Ways to read the attribute ``rate``.
READERS = {
    "attribute": lambda held: held.rate,
    "computed name": lambda held: getattr(held, "etar"[::-1]),
    "attrgetter": operator.attrgetter("rate"),
    "format": lambda held: float("{.rate}".format(held)),  # noqa: UP032
    "object": lambda held: object.__getattribute__(held, "rate"),
}
# Ways to read it that give 1 where there is none.
CAREFUL = {
    "hasattr": lambda held: held.rate if hasattr(held, "rate") else 1.0,
    "default": lambda held: getattr(held, "rate", 1.0),
    "dir": lambda held: held.rate if "rate" in dir(held) else 1.0,
    "vars": lambda held: vars(held).get("rate", 1.0),
    "__dict__": lambda held: held.__dict__.get("rate", 1.0),
    "deepcopy": lambda held: getattr(copy.deepcopy(held), "rate", 1.0),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_an_attribute_that_is_read_is_compared(kind, name):
    held, read = KINDS[kind](), READERS[name]
    held.rate = 2.0
    check(lambda x: x * read(held), lambda: setattr(held, "rate", 7.0))


# Python copies no modules.
PAIRS = {(kind, name) for kind in KINDS for name in CAREFUL} - {("module of Python", "deepcopy")}


@pytest.mark.parametrize(("kind", "name"), sorted(PAIRS))
def test_an_attribute_that_may_be_absent_is_compared(kind, name):
    held, read = KINDS[kind](), CAREFUL[name]
    check(
        lambda x: x * read(held),
        lambda: setattr(held, "rate", 2.0),
        lambda: setattr(held, "rate", 7.0),
        lambda: delattr(held, "rate"),
    )


@pytest.mark.parametrize("name", CAREFUL)
def test_attributes_of_arguments_are_seen(name):
    read, given = CAREFUL[name], flambeau.ones(2)
    run = flambeau.compile(lambda t, x: x * read(t))
    for value in (2.0, 2.0, 7.0, None, 2.0):
        delattr(given, "rate") if value is None else setattr(given, "rate", value)
        assert flambeau.equal(run(given, X), X * read(given))
    assert run.program_count == 3
    assert vars(given).keys() == vars(run(given, X)).keys() | {"rate"}


class Net(nn.Module):
    """Reads one of its attributes, in one of the ways."""

    def __init__(self, read):
        super().__init__()
        self.out, self.rate, self.history, self.meta = nn.Linear(3, 3), 2.0, [], {}
        self.read = read

    def forward(self, x):
        return self.out(x) * self.read(self)


OWN = {**READERS, **CAREFUL}


@pytest.mark.parametrize("name", OWN)
def test_an_attribute_that_a_module_reads_itself_is_compared(name):
    net = Net(OWN[name])
    check(net, lambda: setattr(net, "rate", 7.0))


@pytest.mark.parametrize(
    "write", [setattr, object.__setattr__, lambda net, *item: vars(net).update([item])]
)
def test_an_attribute_is_compared_however_it_is_written(write):
    net = Net(CAREFUL["default"])
    check(
        net,
        lambda: write(net, "rate", 7.0),
        lambda: delattr(net, "rate"),
        lambda: write(net, "rate", 4.0),
    )


UNREAD = {
    "a number": lambda net, i: setattr(net, "epoch", i),
    "of a layer": lambda net, i: setattr(net.out, "calls", i),
    "a list": lambda net, i: net.history.append(i),
    "a dictionary": lambda net, i: net.meta.update({i: i}),
    "a tensor": lambda net, i: setattr(net, "last", X * i),
    "an object": lambda net, i: setattr(net, "trainer", object()),
    "past setattr": lambda net, i: vars(net).update({f"name{i}": i}),
    "deleted": lambda net, i: (setattr(net, "x", 1), delattr(net, "x")),
    "of a tensor": lambda net, i: setattr(net.out.weight, "step", i),
}


@pytest.mark.parametrize("name", UNREAD)
def test_an_attribute_that_is_not_read_may_change(name):
    net = Net(READERS["attribute"])
    net.out.weight.rate = 2.0
    run = flambeau.compile(lambda x: net(x) * net.out.weight.rate)
    for i in range(4):
        UNREAD[name](net, i)
        run(X)
    assert run.program_count == 1


# Attributes of tensors


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
