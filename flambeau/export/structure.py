"""Nested arguments and results, described by plain data that a file's header can hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from flambeau.core.values.tensor import Tensor

#: A described value: a dict with one entry, of a kind and its content. Tensors are numbered in
#: order; a dict is a list of pairs, since JSON's keys are text.
Structure = dict[str, Any]

_CONSTANTS = (type(None), bool, int, str)


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor or an array, and so an input of a program."""
    return isinstance(value, Tensor | np.ndarray | np.generic | jax.Array)


def members(value: Any, path: str) -> list[tuple[str, Any]] | None:
    """The members of a container, each with its path; ``None`` for other values."""
    if isinstance(value, Mapping):
        return [(f"{path}[{key!r}]", each) for key, each in value.items()]
    if isinstance(value, list | tuple):
        return [(f"{path}[{i}]", each) for i, each in enumerate(value)]
    return None


def take_apart(value: Any, path: str, found: list[tuple[str, Any]]) -> Structure:
    """The structure of a value. Its tensors and arrays, with their paths, are added to ``found``.

    Named tuples become tuples, and mappings dicts.

    Raises:
        TypeError: It contains another object.
    """
    if is_tensor(value):
        found.append((path, value))
        return {"tensor": len(found) - 1}
    parts = members(value, path)
    if parts is not None:
        inside = [take_apart(each, where, found) for where, each in parts]
        if not isinstance(value, Mapping):
            return {"list" if isinstance(value, list) else "tuple": inside}
        wrong = [each for each in value if type(each) not in (str, int)]
        if wrong:
            raise TypeError(f"export(): keys of {path} must be str or int, got {wrong[0]!r:.80}")
        return {"dict": [list(pair) for pair in zip(value, inside, strict=True)]}
    if type(value) is float:
        return {"float": repr(value)}
    if type(value) in _CONSTANTS:
        return {"constant": value}
    raise TypeError(
        f"export(): {path} is a {type(value).__name__}; a program takes and returns tensors, "
        "numbers, str, bool, None, and tuples, lists and dicts of them"
    )


def put_together(structure: Structure, tensors: Any) -> Any:
    """The value of a structure with these tensors."""
    ((kind, content),) = structure.items()
    if kind == "tensor":
        return tensors[content]
    if kind in ("tuple", "list"):
        inside = [put_together(each, tensors) for each in content]
        return inside if kind == "list" else tuple(inside)
    if kind == "dict":
        return {key: put_together(each, tensors) for key, each in content}
    return float(content) if kind == "float" else content


def tensors_of(structure: Structure, value: Any, path: str) -> Iterator[Any]:
    """The tensors of an argument that has this structure.

    Raises:
        TypeError: It has another structure, or another constant.
    """
    ((kind, content),) = structure.items()
    if kind == "tensor":
        if not is_tensor(value):
            raise TypeError(f"{path} must be a tensor, got {value!r:.80}")
        yield value
    elif kind == "dict":
        keys = [key for key, _ in content]
        if not isinstance(value, Mapping) or {*value} != {*keys}:
            raise TypeError(f"{path} must be a dict with the keys {keys}, got {_kind_of(value)}")
        for key, each in content:
            yield from tensors_of(each, value[key], f"{path}[{key!r}]")
    elif kind in ("tuple", "list"):
        if not isinstance(value, list | tuple) or len(value) != len(content):
            raise TypeError(f"{path} must be a {kind} of {len(content)}, got {_kind_of(value)}")
        for i, (each, part) in enumerate(zip(content, value, strict=True)):
            yield from tensors_of(each, part, f"{path}[{i}]")
    else:
        expected = float(content) if kind == "float" else content
        nan = kind == "float" and math.isnan(expected) and isinstance(value, float)
        is_same = type(value) is type(expected) and value == expected
        if not (is_same or (nan and math.isnan(value))):
            raise TypeError(
                f"{path} is a constant of the program, {expected!r:.80}, got {value!r:.80}; export "
                "the model once for each value"
            )


def _kind_of(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a dict with the keys {list(value)!r:.200}"
    size = f" of {len(value)}" if isinstance(value, list | tuple) else ""
    return f"a {type(value).__name__}{size}"


def check(structure: Any, count: int, depth: int) -> None:
    """Check a structure that was read from a file.

    Args:
        structure: The claimed structure.
        count: The number of its tensors.
        depth: How deep it may be nested.

    Raises:
        ValueError: It is none.
    """
    seen: list[Any] = []
    _check(structure, seen, depth)
    if seen != list(range(count)):
        raise ValueError("its tensors are not numbered in order")


def _check(structure: Any, seen: list[Any], depth: int) -> None:
    if depth < 0 or type(structure) is not dict or len(structure) != 1:
        raise ValueError("a structure is no dict of one entry, or nested too deeply")
    ((kind, content),) = structure.items()
    if kind == "tensor":
        seen.append(content if type(content) is int else None)
    elif kind in ("tuple", "list", "dict"):
        if type(content) is not list:
            raise ValueError(f"a {kind} has no list of members")
        for each in content:
            if kind == "dict" and not (
                type(each) is list and len(each) == 2 and type(each[0]) in (str, int)
            ):
                raise ValueError("a dict has no pairs of a key and a value")
            _check(each[1] if kind == "dict" else each, seen, depth - 1)
    elif kind == "float":
        float(content)
    elif kind != "constant" or type(content) not in _CONSTANTS:
        raise ValueError(f"{kind!r:.80} is no kind of value")
