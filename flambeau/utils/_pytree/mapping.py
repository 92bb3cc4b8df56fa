"""Functions applied to all leaves of a tree."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from flambeau.utils._pytree.keys import KeyPath
from flambeau.utils._pytree.nodes import SUPPORTED_NODES, node_type_of
from flambeau.utils._pytree.specs import (
    IsLeaf,
    TreeSpec,
    tree_flatten,
    tree_is_leaf,
    tree_iter,
    tree_structure,
)

__all__ = [
    "arg_tree_leaves", "map_only", "tree_all", "tree_all_only", "tree_any", "tree_any_only",
    "tree_flatten_with_path", "tree_leaves_with_path", "tree_map", "tree_map_", "tree_map_only",
    "tree_map_only_", "tree_map_with_path",
]  # fmt: skip

Types = type | tuple[type, ...] | types.UnionType


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The tree with each leaf replaced by ``func(leaf, ...)``.

    Args:
        func: Takes a leaf of ``tree``, and the value at its position in each of ``rests``.
        tree: Any value; see `tree_flatten`.
        *rests: Trees with the structure of ``tree``, or a deeper one.
        is_leaf: Returns whether to treat a container as a leaf.

    Raises:
        ValueError: One of ``rests`` has another structure.

    >>> from flambeau.utils._pytree import tree_map
    >>> tree_map(lambda a, b: a + b, {"x": 1, "y": (2, 3)}, {"y": (20, 30), "x": 10})
    {'x': 11, 'y': (22, 33)}
    """
    leaves, treespec = tree_flatten(tree, is_leaf)
    others = [treespec.flatten_up_to(each) for each in rests]
    return treespec.unflatten(map(func, leaves, *others))


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """Call ``func`` with each leaf, like `tree_map`, and return the tree unchanged."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def map_only(type_or_types_or_pred: Types | Callable[[Any], bool], /) -> Callable[..., Any]:
    """A decorator for functions of leaves: leaves that are not selected are kept.

    Args:
        type_or_types_or_pred: The classes of the selected leaves, or a predicate.
    """
    is_meant = _meant(type_or_types_or_pred)

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda leaf: func(leaf) if is_meant(leaf) else leaf

    return decorate


def _meant(which: Types | Callable[[Any], bool]) -> Callable[[Any], bool]:
    if isinstance(which, type | tuple | types.UnionType):
        return lambda leaf: isinstance(leaf, which)
    if callable(which):
        return which
    raise TypeError(f"expected a class, a tuple of classes or a function, got {which!r}")


def tree_map_only(
    type_or_types_or_pred: Types | Callable[[Any], bool],
    /,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: IsLeaf = None,
) -> Any:
    """The tree with each leaf of some classes replaced by ``func(leaf)``.

    >>> from flambeau.utils._pytree import tree_map_only
    >>> tree_map_only(int, lambda x: -x, [1, "a", 2.0])
    [-1, 'a', 2.0]
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Types | Callable[[Any], bool],
    /,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: IsLeaf = None,
) -> Any:
    """Call ``func`` with each leaf of some classes, and return the tree unchanged."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Types, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether ``pred`` holds for all leaves of some classes."""
    found = tree_iter(tree, is_leaf)
    return all(pred(each) for each in found if isinstance(each, type_or_types))


def tree_any_only(
    type_or_types: Types, /, pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None
) -> bool:
    """Whether ``pred`` holds for any leaf of some classes."""
    found = tree_iter(tree, is_leaf)
    return any(pred(each) for each in found if isinstance(each, type_or_types))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of the arguments of a function."""
    return [leaf for each in (*args, *kwargs.values()) for leaf in tree_iter(each)]


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with its path.

    Raises:
        ValueError: A class in the tree was registered without keys.

    >>> from flambeau.utils._pytree import tree_leaves_with_path
    >>> from flambeau.utils._pytree import keystr
    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"a": (1, 2)})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    found: list[tuple[KeyPath, Any]] = []
    _add_with_path((), tree, is_leaf, found)
    return found


def _add_with_path(path: KeyPath, tree: Any, is_leaf: IsLeaf, found: list[Any]) -> None:
    if tree_is_leaf(tree, is_leaf):
        found.append((path, tree))
        return
    flatten = SUPPORTED_NODES[node_type_of(tree)].flatten_with_keys_fn
    if flatten is None:
        raise ValueError(
            f"{type(tree)} was registered without keys for its members; give register_pytree_node "
            "a flatten_with_keys_fn"
        )
    for key, member in flatten(tree)[0]:
        _add_with_path((*path, key), member, is_leaf, found)


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """The leaves of a tree, each with its path, and its structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None
) -> Any:
    """The tree with each leaf replaced by ``func(path, leaf, ...)``; see `tree_map`."""
    found, treespec = tree_flatten_with_path(tree, is_leaf)
    others = [treespec.flatten_up_to(each) for each in rests]
    return treespec.unflatten(
        func(path, leaf, *more) for (path, leaf), *more in zip(found, *others, strict=True)
    )
