"""Containers from outside that are only read: their members, classes and identity are compared."""

import array
import collections
import copy
import types

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.guarding.freezing import freeze, sharing_in
from tests.compile.following import X, check
from tests.compile.holding import HOLDERS, HOLDERS_OF_OBJECTS


class Plain:
    rate = 2.0

    def __bool__(self):
        return self.rate > 3

    def __mul__(self, x):
        return x * self.rate


class Other(Plain):
    rate = 7.0


class Row(list):
    """A list with attributes of its own."""


class Table(dict):
    """A dictionary whose entries are attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Kept:
    """A descriptor that stores its value in the object, under another name."""

    def __get__(self, instance, owner=None):
        return instance._rate

    def __set__(self, instance, value):
        instance._rate = value


class WithDescriptor:
    rate = Kept()

    def __init__(self, rate):
        self.rate = rate


def row_with(rate):
    row = Row()
    row.rate = rate
    return row


def put(held, key, value):
    held[key] = value


# Objects in containers are told apart by what they are, however equal.

CONTAINERS = ("list", "dictionary in a list", "deque", "UserDict", "ChainMap", "set")
USES = {
    "operator": lambda each, x: each * x,
    "truth": lambda each, x: x * 2 if each else x,
    "isinstance": lambda each, x: x * 2 if isinstance(each, Other) else x,
    "type": lambda each, x: x * 2 if type(each) is Other else x,
    "attribute of its class": lambda each, x: x * each.rate,
}


class Twice(nn.Identity):
    """Another class of modules."""


@pytest.mark.parametrize(
    ("container", "use"), [*[(name, "type") for name in CONTAINERS], *[("list", u) for u in USES]]
)
def test_the_class_of_an_object_in_a_container_is_seen(container, use):
    hold, get = {**HOLDERS, **HOLDERS_OF_OBJECTS}[container]
    each = Plain()
    held = hold(each)
    check(lambda x: USES[use](get(held), x), lambda: setattr(each, "__class__", Other))


def test_the_class_of_a_module_in_a_dictionary_is_seen():
    held = nn.ModuleDict({"a": nn.Identity()})
    check(
        lambda x: x * 2 if type(held["a"]) is Twice else x,
        lambda: setattr(held["a"], "__class__", Twice),
    )


@pytest.mark.parametrize("make", [row_with, WithDescriptor])
def test_another_object_in_a_container_is_seen(make):
    objects = np.empty(1, dtype=object)
    objects[0] = make(2.0)
    inner = {"a": make(2.0)}
    for held, key in ((inner, "a"), ([make(2.0)], 0), (objects, 0)):
        check(
            lambda x, held=held, key=key: x * held[key].rate,
            lambda held=held, key=key: put(held, key, make(7.0)),
        )
    check(lambda x, nested=[inner]: x * nested[0]["a"].rate, lambda: put(inner, "a", make(8.0)))


def test_a_container_that_changes_while_another_is_replaced_by_an_equal_one_is_seen():
    namespace = types.SimpleNamespace(equal=[1.0], rates=[2.0])

    def change():
        namespace.equal = [1.0]
        namespace.rates[0] = 7.0

    check(lambda x: x * namespace.equal[0] * namespace.rates[0], change)


@pytest.mark.parametrize(
    ("before", "after"), [(1, True), (0.0, -0.0), (1, 1.0)], ids=["bool", "zero", "float"]
)
def test_members_and_keys_are_told_apart_exactly(before, after):
    members, keys = {before}, {before: 2.0}

    def length(x):
        return x * len(repr(members)) + len(repr(keys))

    run = flambeau.compile(length)
    for each in (before, after, before):
        members.clear()
        members.add(each)
        keys.clear()
        keys[each] = 2.0
        assert flambeau.equal(run(X), length(X))


def test_tensors_are_keys_of_dictionaries():
    held = {flambeau.ones(2): [2.0]}

    def change():
        held.clear()
        held[flambeau.ones(2)] = [7.0]

    check(lambda x: x * next(iter(held.values()))[0], change)


def test_thousands_of_objects_can_be_compared():
    objects = [Plain() for _ in range(3000)]
    check(lambda x: x * objects[-1].rate, lambda: setattr(objects[-1], "rate", 7.0))


@pytest.mark.parametrize("given", [array.array("d", [2.0]), bytearray([2])], ids=type)
def test_arguments_that_change_in_place_are_seen(given):
    given = copy.copy(given)
    run = flambeau.compile(lambda x, given, *more: x * given[0])
    for value in (2, 7, 2):
        given[0] = value
        assert run(X, given).tolist() == (X * value).tolist()
        assert run(X, [given][0], {"a": given}).tolist() == (X * value).tolist()
    assert run.program_count == 4


@pytest.mark.parametrize("kind", [Row, Table])
def test_classes_of_containers_among_the_arguments_are_watched(kind, monkeypatch):
    given = row_with(2.0) if kind is Row else Table(rate=2.0)
    run = flambeau.compile(lambda x, given: x * given.rate)
    assert run(X, given).tolist() == (X * 2).tolist()
    monkeypatch.setattr(kind, "rate", property(lambda self: 7.0), raising=False)
    assert run(X, given).tolist() == (X * 7).tolist()
    monkeypatch.undo()
    assert run(X, given).tolist() == (X * 2).tolist()


def test_bound_methods_kept_outside_lead_to_their_object():
    behind, numbers = {"rate": 2.0}, np.array([2.0])
    get, item = types.MappingProxyType(behind).get, numbers.item
    check(lambda x: x * get("rate"), lambda: put(behind, "rate", 7.0))
    check(lambda x: x * item(), lambda: put(numbers, 0, 7.0))


# Which containers are the same object is compared, since code can ask for it by ``is``.

MAKERS = {
    "list": lambda: [1.0, 2.0],
    "empty list": list,
    "dictionary": lambda: {"rate": 1.0},
    "ordered": lambda: collections.OrderedDict(rate=1.0),
    "set": lambda: {1.0, 2.0},
    "deque": lambda: collections.deque([1.0]),
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
    box, net = {"pair": pair}, nn.Identity()
    exchanged = (pair[0], pair[0])
    check(
        lambda x: x * 7 if box["pair"][0] is box["pair"][1] else x,
        lambda: put(box, "pair", exchanged),
    )
    net.first, net.second, net.current = one, make(), one
    check(
        lambda x: net(x) * (5 if net.current is net.first else 7),
        lambda: setattr(net, "current", net.second),
    )


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


@pytest.mark.parametrize("kind", [list, dict, collections.deque])
def test_the_class_of_a_container_makes_new_ones(kind):
    losses = types.SimpleNamespace(members=kind())
    run = flambeau.compile(lambda x: (x * 2, type(losses.members)()))
    for _ in range(2):
        _, other = run(flambeau.ones(1))
        assert type(other) is kind
        assert other is not losses.members
