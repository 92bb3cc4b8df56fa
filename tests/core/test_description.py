"""Descriptions of functions: equal exactly if they compute the same."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import operator
import typing

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from flambeau.core.operators import op
from flambeau.core.programs import description
from flambeau.core.programs.description import IndescribableError, describe
from flambeau.core.values import steps
from flambeau.core.values.view import read_through

VALUES = [
    0, 1, -1, True, False, None, 0.0, -0.0, 1.0, math.inf, 1j, "1", b"1", "", (), (1,), ((1,),),
    (1, 2), (1, (2,)), [1], {1: 2}, {2: 1}, {1}, ..., slice(1), slice(1, None), slice(None, 1, 1),
    np.dtype("float32"), np.float32, np.float32(1), np.float64(1), np.ones(1), np.ones((1, 1)),
    np.zeros(1), np.ones(1, np.float32), jax.ShapeDtypeStruct((1,), np.float32),
    jax.ShapeDtypeStruct((1,), np.int32), operator.add, operator.sub, jnp.add, jnp.where, jnp.sum,
    functools.partial(operator.add, 1), functools.partial(operator.add, 1.0),
    functools.partial(operator.add, x=1), functools.partial(functools.partial, 1),
    ("ab", "c"), ("a", "bc"), ("a;", "b"), ("a", ";b"),
]  # fmt: skip


def test_different_values_have_different_descriptions():
    texts = [describe(each) for each in VALUES]
    for i, text in enumerate(texts):
        same = [VALUES[j] for j, other in enumerate(texts) if other == text and j != i]
        assert not same, f"{VALUES[i]!r} and {same!r} are both {text}"


def test_a_description_is_the_same_each_time():
    for each in VALUES:
        assert describe(each) == describe(each)


def test_views_are_told_apart_by_their_steps():
    def reading(shape):
        return describe(functools.partial(read_through, (steps.Reshape(shape),)))

    assert reading((2, 3)) == reading((2, 3))
    assert reading((2, 3)) != reading((3, 2))


def test_operators_are_told_apart_by_their_static_arguments():
    (declared,) = (each for each in op._all_ops if each.name == "flip")
    texts = {describe(declared.kernel(static).function) for static in (((0,),), ((1,),), ((0, 1),))}
    assert len(texts) == 3


def test_every_operator_has_a_description():
    for declared in op._all_ops:
        if declared.function.__module__.startswith("flambeau"):
            describe(declared)


def closure(number):
    return lambda x: x + number


class Thing:
    def method(self):
        pass


class Pair(typing.NamedTuple):
    left: int
    right: int


def recursive():
    def again(x):
        return later(x) + again(x)

    if not Pair:
        later = again
    return again


@functools.wraps(jnp.negative)
def disguised(x):
    return x * 2


@pytest.mark.parametrize(
    "function",
    [
        closure(1), Thing().method, Thing(), functools.partial(closure, 1), Thing, jnp.ones(2),
        disguised, Pair(1, 2), collections.Counter("a"), np.ma.ones(2),
    ],
    ids=[
        "function", "method", "object", "partial", "class", "array",
        "under another name", "named tuple", "dictionary", "subclass of arrays",
    ],
)  # fmt: skip
def test_code_of_the_users_has_no_description(function):
    with pytest.raises(IndescribableError):
        describe(function)


def test_a_closure_over_a_variable_without_a_value_has_none(monkeypatch):
    monkeypatch.setattr(description, "_KNOWN", description._KNOWN | {"tests"})
    with pytest.raises(IndescribableError, match="variable"):
        describe(recursive())


def test_lambdas_of_one_place_are_told_apart_by_all_their_constants(monkeypatch):
    monkeypatch.setattr(description, "_KNOWN", description._KNOWN | {"tests"})

    def made(text):
        # As in a process without the places of instructions in their line.
        return eval(compile(text, "file", "eval").replace(co_linetable=b""), {"__name__": "tests"})

    found = {
        describe(made(f"lambda x: {body}"))
        for body in ("x.sum((0, 1))", "x.sum((1, 0))", "(lambda: x + 1)", "(lambda: x + 2)")
    }
    assert len(found) == 4


def test_large_constants_have_none():
    with pytest.raises(IndescribableError, match=r"float64\[1000\]"):
        describe(np.zeros(1000))


@dataclasses.dataclass
class Users:
    number: int


def test_dataclasses_of_the_users_have_none():
    with pytest.raises(IndescribableError):
        describe(Users(1))
