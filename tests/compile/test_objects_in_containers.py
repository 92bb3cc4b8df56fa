"""Objects in lists, dictionaries and sets are told apart by what they are, however equal."""

import array
import collections
import copy
import types

import numpy as np
import pytest

import flambeau
from flambeau import nn
from tests.compile.following import X, check


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
    made = Row()
    made.rate = rate
    return made


CONTAINERS = {
    "list": (lambda each: [each], lambda held: held[0]),
    "dictionary": (lambda each: {"a": each}, lambda held: held["a"]),
    "dictionary in a list": (lambda each: [{"a": each}], lambda held: held[0]["a"]),
    "deque": (lambda each: collections.deque([each]), lambda held: held[0]),
    "UserDict": (lambda each: collections.UserDict(a=each), lambda held: held["a"]),
    "ChainMap": (lambda each: collections.ChainMap({"a": each}), lambda held: held["a"]),
    "set": (lambda each: {each}, lambda held: next(iter(held))),
}
USES = {
    "operator": lambda each, x: each * x,
    "truth": lambda each, x: x * 2 if each else x,
    "isinstance": lambda each, x: x * 2 if isinstance(each, Other) else x,
    "type": lambda each, x: x * 2 if type(each) is Other else x,
    "attribute of its class": lambda each, x: x * each.rate,
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("use", ["operator", "type"])
def test_the_class_of_an_object_in_a_container_is_seen(container, use):
    make, get = CONTAINERS[container]
    each = Plain()
    held = make(each)
    check(lambda x: USES[use](get(held), x), lambda: setattr(each, "__class__", Other))


@pytest.mark.parametrize("use", USES)
def test_each_use_of_the_class_is_seen(use):
    each = Plain()
    held = [each]
    check(lambda x: USES[use](held[0], x), lambda: setattr(each, "__class__", Other))


def test_the_class_of_a_module_that_is_only_looked_at_is_seen():
    class Twice(nn.Identity):
        pass

    modules = nn.ModuleDict({"a": nn.Identity()})
    check(
        lambda x: x * 2 if isinstance(modules["a"], Twice) else x,
        lambda: setattr(modules["a"], "__class__", Twice),
    )


def put(held, key, value):
    held[key] = value


@pytest.mark.parametrize("make", [row_with, WithDescriptor])
def test_another_object_in_a_container_is_seen(make):
    for held, key in (([make(2.0)], 0), ({"a": make(2.0)}, "a")):
        check(
            lambda x, held=held, key=key: x * held[key].rate,
            lambda held=held, key=key: put(held, key, make(7.0)),
        )
    nested = [{"a": make(2.0)}]
    check(lambda x: x * nested[0]["a"].rate, lambda: put(nested[0], "a", make(7.0)))
    objects = np.empty(1, dtype=object)
    objects[0] = make(2.0)
    check(lambda x: x * objects[0].rate, lambda: put(objects, 0, make(7.0)))


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
    def length(x):
        return x * len(repr(held))

    held = {before}
    run = flambeau.compile(lambda x: length(x))
    for member in (before, after, before):
        held.clear()
        held.add(member)
        assert flambeau.equal(run(X), length(X))
    held = {before: 2.0}
    for key in (before, after, before):
        held.clear()
        held[key] = 2.0
        assert flambeau.equal(run(X), length(X))


def test_tensors_are_keys_of_dictionaries():
    one, other = flambeau.ones(2), flambeau.ones(2)
    held = {one: [2.0]}

    def change():
        held.clear()
        held[other] = [7.0]

    check(lambda x: x * next(iter(held.values()))[0], change)


def test_thousands_of_objects_can_be_compared():
    objects = [Plain() for _ in range(3000)]
    check(lambda x: x * objects[-1].rate, lambda: setattr(objects[-1], "rate", 7.0))


ARGUMENTS = {
    "array.array": (array.array("d", [2.0]), lambda given: given[0]),
    "bytearray": (bytearray([2]), lambda given: given[0]),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_change_in_place_are_seen(name):
    given, get = copy.deepcopy(ARGUMENTS[name][0]), ARGUMENTS[name][1]
    run = flambeau.compile(lambda x, given, *more: x * get(given))
    for value in (2, 7, 2):
        given[0] = value
        assert run(X, given).tolist() == (X * value).tolist()
        assert run(X, [given][0], {"a": given}).tolist() == (X * value).tolist()
    assert run.program_count == 4


@pytest.mark.parametrize("kind", [Row, Table])
def test_classes_of_containers_among_the_arguments_are_watched(kind, monkeypatch):
    given = kind()
    if kind is Row:
        given.rate = 2.0
    else:
        given["rate"] = 2.0
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
