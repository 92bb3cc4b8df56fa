"""Which containers are the same object is compared, since code can ask for it by ``is``."""

from collections import OrderedDict, deque

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.freezing import freeze, sharing_in
from tests.compile.following import X, check

MAKERS = {
    "list": lambda: [1.0, 2.0],
    "empty list": list,
    "dictionary": lambda: {"rate": 1.0},
    "ordered": lambda: OrderedDict(rate=1.0),
    "set": lambda: {1.0, 2.0},
    "deque": lambda: deque([1.0]),
    "array": lambda: np.zeros(2),
    "bytearray": lambda: bytearray(2),
    "tuple with a list": lambda: ([1.0],),
}


@pytest.mark.parametrize("name", MAKERS)
def test_equal_containers_that_are_exchanged_are_told_apart(name):
    first, second = MAKERS[name](), MAKERS[name]()
    current = first

    def function(x):
        return x * (5 if current is first else 7 if current is second else 9)

    run = flambeau.compile(function)
    for current in (first, second, MAKERS[name](), MAKERS[name](), first, second):  # noqa: B007
        for _ in range(2):
            assert flambeau.equal(run(X), function(X))
    # Any container that is neither takes the same program.
    assert run.program_count == 3


@pytest.mark.parametrize("make", [list, dict, lambda: [[1.0]]])
def test_members_that_are_the_same_object_are_told_apart(make):
    one = make()
    held = {"a": one, "b": one}
    listed, pair = [one, one], (one, make())
    check(lambda x: x * 7 if held["a"] is held["b"] else x, lambda: held.update(b=make()))
    check(lambda x: x * 7 if listed[0] is listed[1] else x, lambda: listed.insert(1, make()))
    box = {"pair": pair}

    def exchange():
        box["pair"] = (pair[0], pair[0])

    check(lambda x: x * 7 if box["pair"][0] is box["pair"][1] else x, exchange)


def test_containers_in_attributes_of_a_module_are_told_apart():
    class Choosing(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = [1.0], [1.0]
            self.current = self.first

        def forward(self, x):
            return x * 5 if self.current is self.first else x * 7

    net = Choosing()
    check(net, lambda: setattr(net, "current", net.second))


def test_a_container_made_for_each_call_needs_no_program():
    sizes, other = [1.0, 2.0], [1.0, 2.0]
    held = {"sizes": [1.0], "names": ["a"]}

    def function(x):
        return x * sum(sizes) * len(other) * len(held["names"])

    run = flambeau.compile(function)
    for _ in range(12):
        assert flambeau.equal(run(X), function(X))
        sizes, held["names"] = [1.0, 2.0], ["a"]
    assert run.program_count == 1


def test_the_numbers_of_containers_follow_from_what_is_the_same():
    inner = [1.0]
    loop: list = []
    loop.append(loop)
    assert sharing_in([inner, [inner], {"a": inner, "b": [1.0]}]) == (0, 1, 2, 0, 0, 3)
    assert sharing_in([loop, loop]) == (0, 0, 0)
    assert sharing_in([1.0, "text", (2.0,), frozenset()]) == ()
    equal = [[[1.0]], [[1.0]]]
    assert freeze(equal) == freeze([equal[0], equal[0]])
    assert sharing_in([equal]) != sharing_in([[equal[0], equal[0]]])


@pytest.mark.parametrize("kind", [list, dict, deque])
def test_the_class_of_a_container_makes_new_ones(kind):
    class Losses:
        def __init__(self):
            self.members = kind()

    losses = Losses()

    def function(x):
        return x * 2, type(losses.members)()

    run = flambeau.compile(function)
    for _ in range(2):
        _, other = run(flambeau.ones(1))
        assert type(other) is kind
        assert other is not losses.members
