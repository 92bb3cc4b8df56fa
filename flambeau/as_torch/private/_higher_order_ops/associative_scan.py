"""Inclusive prefix scans of a sequence with an associative function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.func import vmap
from flambeau.utils import _pytree

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """The inclusive prefix scan with ``combine_fn``.

    It takes O(log n) rounds and is differentiable.

    Args:
        combine_fn: An associative function of two elements of the same structure.
        xs: A tensor, or a structure of tensors of one length along ``dim``.
        dim: The dimension to scan.
        reverse: Scan from the last element.
        combine_mode: ``"pointwise"`` or ``"generic"``; the result is the same.

    Returns:
        Tensors of the shapes of ``xs``.

    Raises:
        ValueError: There is no tensor, or an unknown ``combine_mode``.
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"combine_mode must be 'pointwise' or 'generic', got {combine_mode!r}")
    leaves, structure = _pytree.tree_flatten(xs)
    if not leaves:
        raise ValueError("associative_scan() needs at least one tensor in xs")

    def combine(left: list[Any], right: list[Any]) -> list[Any]:
        of_two = vmap(
            lambda one, other: _pytree.tree_leaves(
                combine_fn(
                    _pytree.tree_unflatten(one, structure), _pytree.tree_unflatten(other, structure)
                )
            )
        )
        return list(of_two(left, right))

    elements = [each.movedim(dim, 0) for each in leaves]
    if reverse:
        elements = [each.flip(0) for each in elements]
    results = _scanned(combine, elements)
    if reverse:
        results = [each.flip(0) for each in results]
    return _pytree.tree_unflatten([each.movedim(0, dim) for each in results], structure)


def _scanned(combine: Callable[[list[Any], list[Any]], list[Any]], elements: list[Any]) -> Any:
    length = len(elements[0])
    if length < 2:
        return elements
    firsts = [each[: length - 1 : 2] for each in elements]
    pairs = combine(firsts, [each[1::2] for each in elements])
    # The prefixes at odd positions, from which those at even positions follow.
    even = _scanned(combine, pairs)
    if length > 2:
        shorter = [each[: (length - 1) // 2] for each in even]
        odd = combine(shorter, [each[2::2] for each in elements])
        odd = [flambeau.cat([each[:1], more]) for each, more in zip(elements, odd, strict=True)]
    else:
        odd = [each[:1] for each in elements]
    return [_alternating(*both) for both in zip(odd, even, strict=True)]


def _alternating(first: Any, second: Any) -> Any:
    """Interleave the elements of ``first`` and ``second``."""
    pairs = flambeau.stack([first[: len(second)], second], 1).flatten(0, 1)
    return flambeau.cat([pairs, first[len(second) :]])
