"""Values of the rarer kinds that change in place, and what describes classes, are compared."""

import abc
import array
import collections
import ctypes
import enum
import inspect
import io
import sys
import types

import numpy as np
import pytest

import flambeau
from flambeau.compile.errors import CompileError
from tests.compile.following import MAY_RUN_EAGERLY, X, check


class Text(str):  # noqa: SLOT000 (its attributes are what the test is about)
    """A text with attributes."""


class Number(float):
    """A number with attributes."""


class Pair(tuple):  # noqa: SLOT001 (as above)
    """A tuple with attributes."""


class Row(np.ndarray):
    """An array with attributes."""


class Fields(ctypes.Structure):
    _fields_ = (("rate", ctypes.c_double),)


class Kind(enum.IntEnum):
    ONE = 1


class Abstract(abc.ABC):  # noqa: B024 (classes are registered with it)
    """Knows other classes."""


class Concrete:
    """A class that `Abstract` may be told of."""


def with_rate(made, rate=2.0):
    made.rate = rate
    return made


def described(rate=2.0):
    """Two words."""


BUFFER = bytearray([2])
TABLE = {"a": 2.0}
RECORDS = np.zeros(1, dtype=[("rate", float)])
HELD = {
    "text": with_rate(Text("a")),
    "number": with_rate(Number(1.0)),
    "tuple": with_rate(Pair((1,))),
    "array": with_rate(np.zeros(1).view(Row)),
    "member of an enumeration": with_rate(Kind.ONE),
}


@pytest.mark.parametrize("name", HELD)
def test_attributes_of_values_are_seen(name):
    held = HELD[name]
    listed = [held]
    check(lambda x: x * held.rate, lambda: setattr(held, "rate", 7.0))
    check(lambda x: x * listed[0].rate, lambda: setattr(held, "rate", 2.0))


@pytest.mark.parametrize("make", [lambda: Text("a"), lambda: Number(1.0), lambda: Pair((1,))])
def test_another_value_that_is_equal_is_seen(make):
    listed = [with_rate(make())]
    other = with_rate(make(), 7.0)
    check(lambda x: x * listed[0].rate, lambda: listed.__setitem__(0, other))


def put(held, key, value):
    held[key] = value


def write(file, text):
    file.seek(0)
    file.write(text)
    file.seek(0)


VIEW, VALUES, ITEMS, KEYS = memoryview(BUFFER), TABLE.values(), TABLE.items(), TABLE.keys()
BYTES, TEXT, DOUBLE = io.BytesIO(b"2"), io.StringIO("2"), ctypes.c_double(2.0)
FIELDS = Fields(2.0)
RECORD, ORDERED = RECORDS[0], collections.OrderedDict(a=2.0, b=7.0)
SIGNED = [array.array("b", [-1])]
CHANGES = {
    "values": (lambda x: x * next(iter(VALUES)), lambda: put(TABLE, "a", 7.0)),
    "items": (lambda x: x * dict(ITEMS)["a"], lambda: put(TABLE, "a", 5.0)),
    "keys": (lambda x: x * len(KEYS), lambda: put(TABLE, "b", 7.0)),
    "BytesIO": (lambda x: x * float(BYTES.getvalue()), lambda: write(BYTES, b"7")),
    "StringIO": (lambda x: x * float(TEXT.getvalue()), lambda: write(TEXT, "7")),
    "record": (lambda x: x * (1 + float(RECORD["rate"])), lambda: put(RECORD, "rate", 7.0)),
    "order": (lambda x: x * next(iter(ORDERED)).count("a"), lambda: ORDERED.move_to_end("a")),
    "type of an array": (
        lambda x: x * SIGNED[0][0],
        lambda: put(SIGNED, 0, array.array("B", [255])),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_in_place_are_seen(name):
    check(*CHANGES[name])


# No program follows the memory of these.
MEMORY = {
    "memoryview": (lambda x: x * VIEW[0], lambda: put(BUFFER, 0, 7)),
    "ctypes": (lambda x: x * DOUBLE.value, lambda: setattr(DOUBLE, "value", 7.0)),
    "Structure": (lambda x: x * FIELDS.rate, lambda: setattr(FIELDS, "rate", 7.0)),
}


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("name", MEMORY)
def test_changes_of_memory_are_seen_by_eager_calls(name):
    function, change = MEMORY[name]
    run = flambeau.compile(function)
    for _ in range(2):
        for _ in range(2):
            assert flambeau.equal(run(X), function(X))
        change()
    with pytest.raises(CompileError, match="whose memory no program follows"):
        flambeau.compile(function, fullgraph=True)(X)


def test_what_describes_classes_and_functions_is_seen(monkeypatch):
    class Base:
        """Has subclasses, and instances."""

    one = Base()
    check(lambda x: x * len(type(one).__name__), lambda: setattr(Base, "__name__", "Longer"))
    check(
        lambda x: x * len(described.__name__),
        lambda: monkeypatch.setattr(described, "__name__", "longer_name"),
    )
    check(
        lambda x: x * inspect.signature(described).parameters["rate"].default,
        lambda: monkeypatch.setattr(described, "__defaults__", (7.0,)),
    )
    check(
        lambda x: x * described.__defaults__[0],
        lambda: monkeypatch.setattr(described, "__defaults__", (5.0,)),
    )
    made = []
    check(
        lambda x: x * (1 + len(Base.__subclasses__())),
        lambda: made.append(types.new_class("Derived", (Base,))),
    )


def test_classes_that_are_registered_are_seen():
    one = Concrete()
    check(
        lambda x: x * 2 if isinstance(one, Abstract) else x,
        lambda: Abstract.register(Concrete),
    )


def test_containers_of_python_that_code_names_are_seen(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["a"])
    check(lambda x: x * len(sys.argv), lambda: sys.argv.append("b"))
    assert type(sys.argv) is list
