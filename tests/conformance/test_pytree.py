"""Trees are taken apart as PyTorch does: leaves, paths, structures, and structures as texts."""

from __future__ import annotations

import collections
import inspect
from typing import Any

import pytest
import torch.utils._pytree as theirs

from flambeau.utils import _pytree as ours

Pair = collections.namedtuple("Pair", "x y")
TREES: dict[str, Any] = {
    "dictionary": {"b": 1, "a": (2, [3, None])},
    "other keys": {1: 2, (1, 2): 3, None: 4},
    "ordered": collections.OrderedDict(b=1, a=[2]),
    "default": collections.defaultdict(list, b=[1]),
    "deque": collections.deque([1, (2,)], maxlen=3),
    "named": Pair(1, {"k": 2}),
    "leaf": 3,
    "nothing": None,
    "slice": slice(1, 2),
    "set": {1, 2},
    "empty": [(), {}, []],
}
OTHERS: list[tuple[Any, Any]] = [
    ({"a": 1, "b": 2}, {"b": 3, "a": 4}),
    ({"a": 1}, {"b": 1}),
    ([1], (1,)),
    ([1], [1, 2]),
    ([1], 3),
    (1, [3]),
    ({"a": 1}, collections.OrderedDict(a=[1])),
    (collections.deque([1], 2), collections.deque([1], 3)),
    (Pair(1, 2), collections.namedtuple("Other", "x y")(1, 2)),
    (Pair(1, 2), (1, 2)),
]
# Classes of theirs in the signatures of functions.
PUBLIC = [name for name in theirs.__all__ if inspect.isfunction(getattr(theirs, name))]


@pytest.mark.parametrize("name", TREES)
def test_leaves_paths_and_structures_are_equal(name: str) -> None:
    tree = TREES[name]
    expected, expected_spec = theirs.tree_flatten(tree)
    found, found_spec = ours.tree_flatten(tree)
    assert found == expected == ours.tree_leaves(tree)
    assert repr(found_spec) == repr(expected_spec)
    counts = ("num_leaves", "num_nodes", "num_children")
    assert [getattr(found_spec, each) for each in counts] == [
        getattr(expected_spec, each) for each in counts
    ]
    assert ours.treespec_pprint(found_spec) == theirs.treespec_pprint(expected_spec)
    paths, expected_paths = ours.tree_flatten_with_path(tree), theirs.tree_flatten_with_path(tree)
    assert [(ours.keystr(path), leaf) for path, leaf in paths[0]] == [
        (theirs.keystr(path), leaf) for path, leaf in expected_paths[0]
    ]
    assert repr(paths[0]) == repr(expected_paths[0])


@pytest.mark.parametrize("name", [each for each in TREES if each not in ("named", "other keys")])
def test_structures_are_written_alike(name: str) -> None:
    written = theirs.treespec_dumps(theirs.tree_structure(TREES[name]))
    assert ours.treespec_dumps(ours.tree_structure(TREES[name])) == written
    assert ours.treespec_loads(written) == ours.tree_structure(TREES[name])


@pytest.mark.parametrize(("first", "second"), OTHERS)
def test_two_trees_match_or_not(first: Any, second: Any) -> None:
    def outcome(lib: Any) -> Any:
        try:
            return lib.tree_map(lambda a, b: (a, b), first, second)
        except ValueError as error:
            # Which of the mismatches it is.
            return str(error).split()[:3]

    found, expected = outcome(ours), outcome(theirs)
    if isinstance(expected, list) and "mismatch" in expected[2]:
        assert found[:2] == expected[:2]
    else:
        assert found == expected


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_functions_take_the_same_arguments(name: str) -> None:
    one = inspect.signature(getattr(theirs, name))
    other = inspect.signature(getattr(ours, name))
    assert [(each.name, each.kind, each.default) for each in other.parameters.values()] == [
        (each.name, each.kind, each.default) for each in one.parameters.values()
    ]


def test_every_public_name_is_there() -> None:
    assert [name for name in theirs.__all__ if not hasattr(ours, name)] == []
