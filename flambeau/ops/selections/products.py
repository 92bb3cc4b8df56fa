"""Products, and layers whose parameters are shared by all rows.

These mix lanes, at least in the gradients of the parameters: unselected lanes are set to 0, and
only selected lanes send cotangents back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.ops.selections.calls import (
    Rule,
    agreeing,
    by_name,
    only,
    refuse_length_of_other,
    refuse_operator,
)
from flambeau.ops.selections.selection import Selection, entered

__all__: list[str] = []


def shared(deepest: Callable[[dict[str, Any]], int], batch: bool = False) -> Rule:
    """The rule of an operator on ``input`` whose other arguments are the same for each row.

    Args:
        deepest: The number of trailing dimensions of a row, from the arguments.
        batch: The rows are along the first dimension, which must exist.
    """

    def rule(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = by_name(func, args, kwargs)
        selection = only(func.__name__, given)
        row = deepest(given)
        if selection.depth <= row or (batch and (selection.hidden or selection.ndim != row + 1)):
            refuse_operator(func.__name__, selection)
        given["input"] = selection.filled(0)
        return entered(func(**given), selection.mask, selection.hidden, selection.line)

    return rule


def dims_of_shape(given: dict[str, Any]) -> int:
    """The number of dimensions that `layer_norm` normalizes over."""
    shape = given["normalized_shape"]
    return 1 if isinstance(shape, int) else len(shape)


def matmul(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `matmul` and of the products of matrices and vectors."""
    name = func.__name__
    left, right = by_name(func, args, kwargs).values()
    first = agreeing(name, (left, right))
    # A vector is a row if on the left, and a column if on the right.
    is_inner_left = isinstance(left, Selection) and left.depth == 1
    is_inner_right = isinstance(right, Selection) and right.depth == min(right.ndim, 2)
    if is_inner_left and is_inner_right:
        return func(left.filled(0), right.filled(0))
    if is_inner_left or is_inner_right:
        other = right if is_inner_left else left
        shape = other.lanes.shape if isinstance(other, Selection) else other.shape
        refuse_length_of_other(name, first, shape)
    if isinstance(left, Selection) and isinstance(right, Selection):
        return _batches(func, left, right)
    arrays = [each.filled(0) if isinstance(each, Selection) else each for each in (left, right)]
    result = func(*arrays)
    # A vector on the other side removes a dimension other than the hidden one.
    vector = right if first is left else left
    depth = first.depth - (vector.ndim == 1)
    _check_batch(name, first, vector)
    return entered(result, first.mask, result.ndim - depth, first.line)


def _check_batch(name: str, selection: Selection, other: Tensor) -> None:
    """Fail if a batch of known length is combined with one of lanes."""
    depth = selection.depth
    if depth > 2 and other.ndim >= depth and other.shape[-depth] != 1:
        refuse_length_of_other(name, selection, other.shape)


def _batches(func: Callable[..., Any], left: Selection, right: Selection) -> Selection:
    """Products of matrices in the same lanes."""
    if left.depth < 3 or left.depth != right.depth:
        refuse_operator(func.__name__, left)
    result = func(left.lanes, right.lanes)
    return left.like(result, result.ndim - left.depth)
