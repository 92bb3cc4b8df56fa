"""Reshaping Selections: dimensions moved, split, merged and concatenated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flambeau.core.support.dtype import bool as boolean
from flambeau.core.values.trees import map_tensors
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.factories.creation import ones
from flambeau.ops.selections.calls import (
    agreeing,
    by_name,
    only,
    refuse_length_of_other,
    refuse_operator,
)
from flambeau.ops.selections.elementwise import broadcast
from flambeau.ops.selections.selection import HiddenLength, Selection

__all__: list[str] = []


def moving(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of operators that move or insert dimensions: finds the hidden one."""
    selection = agreeing(func.__name__, (*args, *kwargs.values()))
    rest = args[1:] if args else ()
    if args and args[0] is not selection:
        refuse_operator(func.__name__, selection)
    # Distinct sizes identify the dimensions, on a tensor without elements.
    probe = ones(*range(2, selection.ndim + 2), device="meta")
    size = selection.hidden + 2
    hidden = list(func(probe, *rest, **kwargs).shape).index(size)
    return selection.like(func(selection.lanes, *rest, **kwargs), hidden)


def flip(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `flip`, which flips the mask together with the lanes."""
    selection = args[0]
    sizes = kwargs.get("dims", args[1:])
    listed = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes
    dims = [wrap_dim(each, selection.ndim, "flip") for each in listed]
    lanes = func(selection.lanes, dims)
    mask = selection.mask.flip(0) if selection.hidden in dims else selection.mask
    return Selection.of(lanes, mask, selection.hidden, selection.line)


def squeeze(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `squeeze`, which needs explicit dimensions, since the length may be 1."""
    given = by_name(func, args, kwargs)
    selection = only("squeeze", given)
    dims = given["dim"]
    if dims is not None:
        listed = dims if isinstance(dims, list | tuple) else (dims,)
        dims = [wrap_dim(each, selection.ndim, "squeeze") for each in listed]
    if dims is None or selection.hidden in dims:
        selection.refuse(
            "squeeze() may find the hidden length to be 1",
            "name the dimensions that are to go, as in squeeze(1)",
        )
    dropped = sum(d < selection.hidden and selection.lanes.shape[d] == 1 for d in dims)
    return selection.like(selection.lanes.squeeze(tuple(dims)), selection.hidden - dropped)


def parts(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `split`, `chunk`, `narrow`, `select` and `unbind` along other dimensions."""
    given = by_name(func, args, kwargs)
    argument = next(iter(given))
    selection = only(func.__name__, given, argument)
    dim = wrap_dim(given["dim"], selection.ndim, func.__name__)
    if dim == selection.hidden:
        refuse_operator(func.__name__, selection)
    drops = func.__name__ in ("select", "unbind") and dim < selection.hidden
    given[argument] = selection.lanes
    return map_tensors(lambda part: selection.like(part, selection.hidden - drops), func(**given))


# Sizes


def reshape(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `reshape` and `view`: the lanes keep a dimension, alone or merged with others."""
    selection = agreeing(func.__name__, (*args, *kwargs.values()))
    sizes = kwargs.get("shape", kwargs.get("size", args[1:]))
    if len(sizes) == 1 and isinstance(sizes[0], list | tuple):
        sizes = sizes[0]
    if not sizes or args[0] is not selection or isinstance(sizes, HiddenLength):
        refuse_operator(func.__name__, selection)
    return _reshaped(func.__name__, selection, list(sizes))


def _reshaped(name: str, selection: Selection, sizes: list[Any]) -> Selection:
    """The lanes with these sizes; -1, or the hidden length, is that of the hidden dimension."""
    shape, hidden = list(selection.lanes.shape), selection.hidden
    before, behind = shape[:hidden], shape[hidden + 1 :]
    stands = [i for i, size in enumerate(sizes) if isinstance(size, HiddenLength)]
    stands = stands or [i for i, size in enumerate(sizes) if size == -1]
    if len(stands) != 1:
        refuse_operator(name, selection)
    (place,) = stands
    left, right = sizes[:place], sizes[place + 1 :]
    if isinstance(sizes[place], HiddenLength):
        left, right = _completed(left, before), _completed(right, behind)
    # A dimension without a size, next to the hidden one, is merged with it.
    kept_before = _as_large(left, before)
    kept_behind = _as_large(right[::-1], behind[::-1])
    if kept_before is None or kept_behind is None:
        refuse_operator(name, selection)
    merged_before = before[kept_before:]
    merged_behind = behind[: len(behind) - kept_behind]
    if isinstance(sizes[place], HiddenLength) and math.prod(merged_before + merged_behind) != 1:
        refuse_operator(name, selection)
    return _merged(selection, merged_before, merged_behind, left, right)


def _completed(sizes: list[Any], of: list[int]) -> list[Any]:
    """``sizes`` with a -1 replaced, for as many elements as ``of`` has."""
    known = math.prod(size for size in sizes if size != -1)
    return [math.prod(of) // max(known, 1) if size == -1 else size for size in sizes]


def _as_large(sizes: list[int], of: list[int]) -> int | None:
    """The number of leading dimensions of ``of`` that have as many elements as ``sizes``."""
    wanted = math.prod(sizes)
    counts = [n for n in range(len(of) + 1) if math.prod(of[:n]) == wanted]
    return max(counts, default=None)


def _merged(
    selection: Selection, before: list[int], behind: list[int], left: list[int], right: list[int]
) -> Selection:
    """The lanes merged with the dimensions directly before and after, among the other sizes."""
    count = selection.mask.numel()
    times, each = math.prod(before), math.prod(behind)
    lanes = selection.lanes.reshape(*left, times * count * each, *right)
    if times == each == 1:
        return selection.like(lanes, len(left))
    mask = selection.mask.reshape(1, count, 1).expand(times, count, each).reshape(-1)
    return Selection.of(lanes, mask, len(left), selection.line)


def flatten(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `flatten` and `ravel`."""
    given = by_name(func, args, kwargs)
    selection = only(func.__name__, given)
    ndim, shape, hidden = selection.ndim, list(selection.lanes.shape), selection.hidden
    start = wrap_dim(given.get("start_dim", 0), ndim, "flatten")
    end = wrap_dim(given.get("end_dim", -1), ndim, "flatten")
    if not start <= hidden <= end:
        hidden -= (end - start) * (end < hidden)
        return selection.like(selection.lanes.flatten(start, end), hidden)
    before, behind = shape[start:hidden], shape[hidden + 1 : end + 1]
    return _merged(selection, before, behind, shape[:start], shape[end + 1 :])


def expand(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `expand` and `broadcast_to`: the hidden dimension stays."""
    selection = agreeing(func.__name__, (*args, *kwargs.values()))
    sizes = kwargs.get("size", args[1:])
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes
    hidden = len(sizes) - selection.depth
    if args[0] is not selection or hidden < 0:
        refuse_operator(func.__name__, selection)
    return selection.like(selection.lanes.expand(*_with_lanes(selection, sizes, hidden)), hidden)


def _with_lanes(selection: Selection, sizes: Any, place: int) -> list[Any]:
    """``sizes`` with the hidden length replaced by the number of lanes."""
    found = list(sizes)
    if isinstance(found[place], int) and found[place] != -1:
        refuse_length_of_other("expand", selection, found)
    found[place] = selection.mask.numel()
    return found


def expand_as(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `expand_as`."""
    given = by_name(func, args, kwargs)
    tensor, other = given["self"], given["other"]
    first = agreeing("expand_as", (tensor, other))
    if not isinstance(other, Selection):
        refuse_length_of_other("expand_as", first, other.shape)
    lanes = tensor.lanes if isinstance(tensor, Selection) else broadcast("expand_as", other, tensor)
    if isinstance(tensor, Selection) and tensor.depth != other.depth:
        refuse_length_of_other("expand_as", first, tensor.lanes.shape)
    return other.like(lanes.expand_as(other.lanes))


# Several


def cat(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `cat`: along the hidden dimension masks are concatenated like the lanes."""
    given = by_name(func, args, kwargs)
    tensors = given["tensors"]
    first = next(each for each in tensors if isinstance(each, Selection))
    dim = wrap_dim(given["dim"], first.ndim, "cat")
    if dim != first.hidden:
        return _side_by_side(func, tensors, dim, first.hidden)
    masks = []
    for each in tensors:
        if isinstance(each, Selection) and each.hidden != first.hidden:
            refuse_operator("cat", each)
        alone = isinstance(each, Selection)
        masks.append(each.mask if alone else ones(each.shape[dim], dtype=boolean))
    lanes = [each.lanes if isinstance(each, Selection) else each for each in tensors]
    return Selection.of(func(lanes, dim), func(masks), dim, first.line)


def _side_by_side(func: Callable[..., Any], tensors: Any, dim: int, hidden: int) -> Selection:
    first = agreeing("cat", tensors)
    for each in tensors:
        if not isinstance(each, Selection):
            refuse_length_of_other("cat", first, each.shape)
        if each.hidden != hidden:
            refuse_operator("cat", first)
    return first.like(func([each.lanes for each in tensors], dim))


def stack(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `stack`."""
    given = by_name(func, args, kwargs)
    tensors = given["tensors"]
    first = agreeing("stack", tensors)
    dim = wrap_dim(given["dim"], first.ndim + 1, "stack")
    joined = _side_by_side(func, tensors, dim, first.hidden)
    return first.like(joined.lanes, first.hidden + (dim <= first.hidden))
