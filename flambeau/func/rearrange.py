"""`rearrange`: reshaping and permuting by named dimensions.

The notation is that of einops (https://einops.rocks), as `torch.func.rearrange` takes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.ops.shapes.shape import stack

__all__ = ["rearrange"]

# One dimension of one side of a pattern: the names of its factors, none for a dimension of 1.
_Group = tuple[str, ...]
_TOKEN = re.compile(r"\.\.\.|[()]|\w+|\S")
_REST = "..."
# It may be merged only on the right side.
_JOINED_REST = re.compile(r"\(\s*\.\.\.\s*\)")


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """The elements of a tensor with their dimensions in another order, split or joined.

    Args:
        tensor: The tensor; several of one shape are stacked first.
        pattern: The names of the input's dimensions, ``->``, and the names of the result's.
            Parentheses merge several dimensions into one, ``...`` means any number of dimensions,
            and ``1`` or ``()`` a dimension of size 1.
        axes_lengths: The sizes of dimensions that do not follow from the shape of the tensor.

    Raises:
        ValueError: The pattern is invalid, has a name on one side only or twice, or does not fit
            the shape.

    >>> import flambeau
    >>> from flambeau.func import rearrange
    >>> images = flambeau.zeros(8, 3, 4, 6)
    >>> rearrange(images, "batch channels ... -> batch (...) channels").shape
    flambeau.Size([8, 24, 3])
    >>> rearrange(images, "(two b) c h w -> b c (two h) w", two=2).shape
    flambeau.Size([4, 3, 8, 6])
    """
    source: Any = tensor if isinstance(tensor, Tensor) else stack(list(tensor))
    left, right = _sides(pattern)
    _check_names(pattern, left, right, axes_lengths)
    left, right = _without_rest(left, right, source.ndim, pattern)
    sizes = _sizes(left, tuple(source.shape), axes_lengths, pattern)
    before = [name for group in left for name in group]
    after = [name for group in right for name in group]
    parts = source.reshape([sizes[name] for name in before])
    ordered = parts.permute([before.index(name) for name in after])
    return ordered.reshape([math.prod(sizes[name] for name in group) for group in right])


def _sides(pattern: str) -> tuple[list[_Group], list[_Group]]:
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange(): the pattern '{pattern}' must have one '->'")
    left, right = (_groups(side, pattern) for side in sides)
    if any(_REST in group and len(group) > 1 for group in left):
        raise ValueError(f"rearrange(): '...' is in parentheses on the left of '{pattern}'")
    if (_REST,) in left and not any(_REST in group for group in right):
        raise ValueError(f"rearrange(): '...' is only on the left of '{pattern}'")
    if (_REST,) not in left and any(_REST in group for group in right):
        raise ValueError(f"rearrange(): '...' is only on the right of '{pattern}'")
    return left, right


def _groups(side: str, pattern: str) -> list[_Group]:
    """The dimensions of one side of a pattern."""
    groups: list[_Group] = []
    inner: list[str] | None = None
    for token in _TOKEN.findall(side):
        if token == "(" and inner is None:
            inner = []
        elif token == ")" and inner is not None:
            groups.append(tuple(inner))
            inner = None
        elif token in "()":
            raise ValueError(f"rearrange(): the parentheses of '{pattern}' are nested or unpaired")
        else:
            names = _named(token, pattern)
            if inner is None:
                groups.append(names)
            else:
                inner.extend(names)
    if inner is not None:
        raise ValueError(f"rearrange(): a parenthesis of '{pattern}' is not closed")
    return groups


def _named(token: str, pattern: str) -> _Group:
    if token == "1":
        return ()
    is_name = token.isidentifier() and not token.startswith("_") and not token.endswith("_")
    if token != _REST and not is_name:
        raise ValueError(
            f"rearrange(): '{token}' in '{pattern}' is not a name of a dimension; names are "
            "identifiers without underscores at their ends, and the only number is 1"
        )
    return (token,)


def _check_names(
    pattern: str, left: list[_Group], right: list[_Group], axes_lengths: dict[str, int]
) -> None:
    sides = [[name for group in side for name in group] for side in (left, right)]
    for names in sides:
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"rearrange(): {repeated} are twice on one side of '{pattern}'")
    single = sorted(set(sides[0]) ^ set(sides[1]))
    if single:
        raise ValueError(f"rearrange(): {single} are on one side of '{pattern}' only")
    unknown = sorted(set(axes_lengths) - set(sides[0]))
    if unknown:
        raise ValueError(f"rearrange(): {unknown} are not in '{pattern}'")


def _without_rest(
    left: list[_Group], right: list[_Group], ndim: int, pattern: str
) -> tuple[list[_Group], list[_Group]]:
    """Both sides with a name for each dimension in ``...``."""
    has_rest = (_REST,) in left
    missing = ndim - len(left) + has_rest
    if missing < 0 or (missing and not has_rest):
        raise ValueError(
            f"rearrange(): '{pattern}' has {len(left) - has_rest} dimensions"
            f"{' or more' if has_rest else ''}, the tensor has {ndim}"
        )
    rest = tuple(f"...{place}" for place in range(missing))
    spread: list[_Group] = []
    for group in left:
        spread.extend([(name,) for name in rest] if group == (_REST,) else [group])
    joined = _JOINED_REST.search(pattern) is not None
    found: list[_Group] = []
    for group in right:
        if group == (_REST,) and not joined:
            found.extend((name,) for name in rest)
        else:
            found.append(tuple(n for name in group for n in (rest if name == _REST else (name,))))
    return spread, found


def _sizes(
    left: list[_Group], shape: tuple[int, ...], axes_lengths: dict[str, int], pattern: str
) -> dict[str, int]:
    """The size of each named dimension."""
    sizes = dict(axes_lengths)
    for group, size in zip(left, shape, strict=True):
        unknown = [name for name in group if name not in sizes]
        if len(unknown) > 1:
            raise ValueError(
                f"rearrange(): the sizes of {unknown} in '{pattern}' are not known; give all but "
                f"one of them, as in {unknown[0]}=2"
            )
        known = math.prod(sizes[name] for name in group if name in sizes)
        if unknown and known and size % known == 0:
            sizes[unknown[0]] = size // known
        elif unknown or known != size:
            raise ValueError(
                f"rearrange(): a dimension of size {size} cannot be {group or 1} in '{pattern}' "
                f"with sizes {axes_lengths}"
            )
    return sizes
