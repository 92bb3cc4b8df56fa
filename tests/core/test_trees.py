"""Nested containers: one walk for `func`, `compile` and `utils._pytree`."""

from __future__ import annotations

import copy
import pickle
from collections import namedtuple

import pytest

import flambeau
from flambeau.core.values.trees import CircularError, map_tensors, members_of
from flambeau.func import tree
from flambeau.utils import _pytree as pytree

Point = namedtuple("Point", "x y")


@pytest.mark.parametrize("flatten", [tree.flatten, pytree.tree_flatten])
def test_a_container_that_contains_itself_is_refused_and_nothing_else_is_after_it(flatten):
    circular: list[object] = []
    circular.append({"inside": circular})
    for _ in range(3):
        with pytest.raises(CircularError, match="a list contains itself"):
            flatten(circular)
    shared = [1, 2]
    assert flatten([shared, shared])[0] == [1, 2, 1, 2]


def test_the_error_is_one_of_recursion():
    assert issubclass(CircularError, RecursionError)


def test_structures_of_pytrees_are_copied_and_pickled():
    leaves, structure = pytree.tree_flatten({"b": Point(1, [2, None]), "a": ()})
    for again in (copy.deepcopy(structure), pickle.loads(pickle.dumps(structure))):
        assert again == structure
        assert hash(again) == hash(structure)
        assert (again.num_leaves, again.num_nodes, again.num_children) == (3, 7, 2)
        assert again.unflatten(leaves) == {"b": Point(1, [2, None]), "a": ()}


def test_leaves_are_not_asked_whether_they_are_kept_whole():
    asked = []
    pytree.tree_flatten([1, (2, 3)], is_leaf=lambda each: asked.append(each))
    assert asked == [[1, (2, 3)], (2, 3)]


def test_tensors_in_lists_and_tuples_are_mapped():
    class Members(list):
        pass

    x = flambeau.ones(2)
    found = map_tensors(lambda each: each.sum().item(), (x, Point(x, "a"), Members([x]), {"a": x}))
    assert found == (2.0, Point(2.0, "a"), [2.0], {"a": x})
    assert [type(each) for each in found[1:3]] == [Point, Members]
    assert map_tensors(lambda each: 1, [{"a": x}], dict | list) == [{"a": 1}]


def test_members_of_lists_and_tuples_take_their_place():
    assert [*members_of([1, (2, [3]), {"a": 4}])] == [1, 2, 3, {"a": 4}]
