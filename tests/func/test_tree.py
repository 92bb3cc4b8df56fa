"""Nested values taken apart and put together."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple

import jax.numpy as jnp
from hypothesis import given
from hypothesis import strategies as st

import flambeau
from flambeau.func.tree import (
    LEAF,
    as_tensor,
    broadcast,
    flatten,
    flatten_as,
    map_tensors,
    unflatten,
)

Point = namedtuple("Point", "x y")

nested = st.recursive(
    st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.builds(Point, inner, inner)
    ),
    max_leaves=8,
)


@given(nested)
def test_what_is_taken_apart_is_put_together(value):
    leaves, structure = flatten(value)
    again = unflatten(structure, leaves)
    assert again == value
    assert type(again) is type(value)


def test_keys_keep_their_order():
    leaves, structure = flatten({"z": 1, "a": 2})
    assert leaves == [1, 2]
    assert list(unflatten(structure, [3, 4])) == ["z", "a"]


def test_special_dictionaries_keep_their_type():
    ordered = OrderedDict(b=1, a=2)
    default = defaultdict(list, a=1)
    leaves, structure = flatten((ordered, default))
    first, second = unflatten(structure, leaves)
    assert type(first) is OrderedDict
    assert second["new"] == []


def test_structures_print_their_shape():
    _, structure = flatten(({"a": 1}, [2, 3]))
    assert repr(structure) == "tuple(dict('a': *), list(*, *))"


def test_a_prefix_spreads_over_what_is_below_it():
    _, structure = flatten((1, {"a": 2, "b": 3}))
    assert broadcast(0, structure) == [0, 0, 0]
    assert broadcast((0, None), structure) == [0, None, None]
    assert broadcast((0, {"a": 1, "b": None}), structure) == [0, 1, None]


def test_a_prefix_of_another_structure_does_not():
    _, structure = flatten((1, {"a": 2}))
    assert broadcast((0,), structure) is None
    assert broadcast([0, 0], structure) is None
    assert broadcast((0, {"b": 0}), structure) is None


def test_a_leaf_takes_any_prefix():
    assert broadcast("x", LEAF) == ["x"]


def test_arrays_become_tensors():
    assert isinstance(as_tensor(jnp.ones(2)), flambeau.Tensor)
    assert as_tensor(3) == 3


def test_tensors_inside_are_mapped():
    found = map_tensors(lambda x: x.item(), [flambeau.ones(()), {"a": flambeau.zeros(())}, 3])
    assert found == [1.0, {"a": 0.0}, 3]


def test_a_value_is_taken_apart_as_another_was():
    _, structure = flatten(({"z": 1, "a": [2]}, Point(3, 4)))
    assert flatten_as(structure, ({"a": [6], "z": 5}, Point(7, 8))) == [5, 6, 7, 8]
    for other in (
        ({"z": 5, "a": 6}, Point(7, 8)),
        ({"z": 5, "b": [6]}, Point(7, 8)),
        (OrderedDict(z=5, a=[6]), Point(7, 8)),
        ({"z": 5, "a": [6]}, (7, 8)),
        ({"z": 5, "a": [6, 7]}, Point(7, 8)),
        ({"z": [5], "a": [6]}, Point(7, 8)),
        3,
    ):
        assert flatten_as(structure, other) is None


def test_a_prefix_may_have_its_keys_in_another_order():
    _, structure = flatten({"z": 1, "a": 2})
    assert broadcast({"a": None, "z": 0}, structure) == [0, None]
