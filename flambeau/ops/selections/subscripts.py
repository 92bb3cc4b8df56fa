"""Reading and writing by selected indices, and parts of Selections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.support.jax_core import computes_the_same
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.elementwise.selection import where
from flambeau.ops.indices.subscript import is_mask, parse
from flambeau.ops.selections.calls import (
    agreeing,
    by_name,
    refuse_length_of_other,
    refuse_operator,
)
from flambeau.ops.selections.elementwise import broadcast, elementwise
from flambeau.ops.selections.selection import Selection, broadcastable, entered

__all__: list[str] = []

# Entries of a subscript that are not views.
_NO_VIEW = (Tensor, list, bool, np.ndarray)


def getitem(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of ``x[index]``."""
    source, index = args
    entries = _entries(index)
    if isinstance(source, Selection):
        return _part(source, entries)
    agreeing("__getitem__", entries)
    masks = _with_masks(source, entries)
    if masks is not None:
        return source[masks]
    return _gathered(source, entries)


def _entries(index: Any) -> list[Any]:
    return list(index) if isinstance(index, tuple) else [index]


# Elements of ordinary tensors


def _with_masks(source: Tensor, entries: list[Any]) -> Any:
    """``entries`` with a sole result of `nonzero` replaced by its mask, which moves no elements."""
    at = [i for i, each in enumerate(entries) if isinstance(each, Selection)]
    found = [entries[i].coordinate for i in at]
    if None in found or at != list(range(at[0], at[0] + len(at))):
        return None
    mask = found[0][0]
    is_whole = len(found) == mask.ndim and all(
        dim == n and computes_the_same(array, mask) for n, (array, dim) in enumerate(found)
    )
    if not is_whole or any(isinstance(each, Tensor) for each in _others(entries, at)):
        return None
    # The mask must cover whole dimensions of its size.
    if any(each is ... for each in entries):
        return None
    first = sum(each is not None for each in entries[: at[0]])
    if tuple(source.shape)[first : first + mask.ndim] != tuple(mask.shape):
        return None
    return (*entries[: at[0]], Tensor._wrap(mask), *entries[at[-1] + 1 :])


def _others(entries: list[Any], at: list[int]) -> list[Any]:
    return [each for i, each in enumerate(entries) if i not in at]


def _gathered(source: Tensor, entries: list[Any]) -> Selection:
    """The elements at selected indices; unselected lanes read the first element."""
    first = agreeing("__getitem__", entries)
    plain = _plain(source, entries, 0)
    place = _place(source, plain, first)
    return entered(source[plain], first.mask, place, first.line)


def _plain(source: Tensor, entries: list[Any], fill: int) -> tuple[Any, ...]:
    """``entries`` with Selections replaced by lanes, and ``fill`` where unselected."""
    first = agreeing("__getitem__", entries)
    found = []
    for each in entries:
        if isinstance(each, Selection):
            if each.dtype.name == "bool":
                refuse_length_of_other("__getitem__", each, source.shape)
            found.append(each.filled(fill))
        elif isinstance(each, Tensor) and each.dtype.name == "bool" and each.ndim:
            found.extend(_coordinates_beside(each, entries, fill))
        else:
            shape = _shape(each)
            if len(shape) >= first.depth and shape[-first.depth] != 1:
                refuse_length_of_other("__getitem__", first, shape)
            found.append(each)
    return tuple(found)


def _shape(entry: Any) -> tuple[int, ...]:
    """The shape of an index tensor, array or list; ``()`` for other entries of a subscript."""
    return tuple(entry.shape) if isinstance(entry, Tensor) else np.shape(entry)


def _coordinates_beside(mask: Tensor, entries: list[Any], fill: int) -> list[Tensor]:
    found = mask.nonzero(as_tuple=True)
    first = agreeing("__getitem__", entries)
    if not first.is_as_long_as(found[0]):
        agreeing("__getitem__", [first, found[0]])
    return [each.filled(fill) for each in found]


def _place(source: Tensor, plain: tuple[Any, ...], first: Selection) -> int:
    """The dimension of ``source[plain]`` along which the lanes lie."""
    indices = parse(tuple(source.shape), plain).indices
    if any(is_mask(index) for index in indices.values()):
        refuse_operator("__getitem__", first)
    dims = sorted(indices)
    are_adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    ndim = max(index.ndim for index in indices.values())
    return (dims[0] if are_adjacent else 0) + ndim - first.depth


# Parts of Selections


def _part(source: Selection, entries: list[Any]) -> Any:
    """A part of the selected elements: by a mask of as many, or by slices and integers."""
    if len(entries) == 1 and isinstance(entries[0], Selection):
        return _refined(source, entries[0])
    if any(isinstance(each, _NO_VIEW) for each in entries):
        refuse_operator("__getitem__", source)
    entries, place = _spelled_out(source, entries)
    own, entries[place] = entries[place], slice(None)
    hidden = sum(each is None or isinstance(each, slice) for each in entries[:place])
    lanes = source.lanes[tuple(entries)]
    found = source if lanes is source.lanes else source.like(lanes, hidden)
    if isinstance(own, slice):
        return found if own == slice(None) else _sliced(found, own)
    return _nth(found, own)


def _spelled_out(source: Selection, entries: list[Any]) -> tuple[list[Any], int]:
    """``entries`` with an entry for every dimension, and the index of the hidden one's."""
    used = sum(each is not None and each is not ... for each in entries)
    if used > source.ndim:
        raise IndexError(f"too many indices: {used} for a tensor with {source.ndim} dimensions")
    at = next((i for i, each in enumerate(entries) if each is ...), len(entries))
    rest = [slice(None)] * (source.ndim - used)
    # A second ellipsis covers no dimensions.
    behind = [each for each in entries[at + 1 :] if each is not ...]
    entries = [*entries[:at], *rest, *behind]
    places = [i for i, each in enumerate(entries) if each is not None]
    return entries, places[source.hidden]


def _refined(source: Selection, index: Selection) -> Selection:
    """The selected elements where a mask of as many elements is true."""
    agreeing("__getitem__", (source, index))
    if index.ndim == source.ndim > 1 and index.lanes.shape == source.lanes.shape:
        return _refined(source.flatten(), index.flatten())  # type: ignore[arg-type]
    if index.dtype.name != "bool" or index.ndim != 1:
        refuse_operator("__getitem__", source)
    mask = source.mask & index.lanes
    return entered(source.lanes, mask, source.hidden, source.line)


def _sliced(source: Selection, part: slice) -> Selection:
    """The first selected lanes, all from one on, or every n-th."""
    start, stop, step = part.start or 0, part.stop, 1 if part.step is None else part.step
    if start < 0 or (stop is not None and stop < 0) or step < 1:
        source.refuse("a slice of a selection counts from its end", "count from its beginning")
    number = source.mask.cumsum(0) - 1
    mask = source.mask & (number >= start)
    if stop is not None:
        mask = mask & (number < stop)
    if step > 1:
        mask = mask & ((number - start) % step == 0)
    return entered(source.lanes, mask, source.hidden, source.line)


def _nth(source: Selection, number: int) -> Tensor:
    """One of the selected elements; out of range it reads NaN, as in compiled programs."""
    if number < 0:
        source.refuse("an element of a selection is counted from its end", "flip the mask before")
    found = source.mask & (source.mask.cumsum(0) == number + 1)
    # The position after the last holds nothing.
    lane = where(found.any(), found.int().argmax(), source.mask.numel())
    return source.lanes.select(source.hidden, 0) if source.mask.numel() == 0 else _at(source, lane)


def _at(source: Selection, lane: Tensor) -> Tensor:
    index = (*(slice(None),) * source.hidden, lane.reshape(1))
    return source.lanes[index].squeeze(source.hidden)


# Writing


def setitem(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The rule of ``x[index] = value``."""
    target, index, value = args
    entries = _entries(index)
    if isinstance(target, Selection):
        _overwrite_part(target, entries, value)
        return
    agreeing("__setitem__", (*entries, value))
    if any(isinstance(each, Selection) for each in entries):
        masks = _with_masks(target, entries)
        if masks is None:
            _put(target, entries, value, accumulate=False)
            return
        entries = list(masks)
    if isinstance(value, Selection):
        _spread(target, entries, value)
    else:
        target[tuple(entries)] = value


def index_put(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `index_put` and `index_put_`."""
    given = by_name(func, args, kwargs)
    target, entries = given["input"], list(given["indices"])
    agreeing(func.__name__, (target, *entries, given["values"]))
    if isinstance(target, Selection):
        refuse_operator(func.__name__, target)
    if not func.__name__.endswith("_"):
        target = target.clone()
    if given["accumulate"] or any(isinstance(each, Selection) for each in entries):
        _put(target, entries, given["values"], given["accumulate"])
    else:
        _spread(target, entries, given["values"])
    return target


def _put(target: Tensor, entries: list[Any], value: Any, accumulate: bool) -> None:
    """Write at selected indices; unselected lanes write past the end, that is, nowhere."""
    first = agreeing("__setitem__", (*entries, value))
    if not any(isinstance(each, Selection) for each in entries):
        refuse_operator("index_put", first)
    beyond = max((*target.shape, 1))
    plain = _plain(target, entries, beyond)
    place = _place(target, plain, first)
    if isinstance(value, Tensor):
        value = _value(target[plain].ndim - place, first, value)
    if accumulate:
        target.index_put_(plain, value, accumulate=True)
    else:
        target[plain] = value


def _value(depth: int, first: Selection, value: Tensor) -> Tensor:
    if not isinstance(value, Selection):
        return broadcast("__setitem__", first, value, depth=depth)
    if value.depth != depth:
        refuse_length_of_other("__setitem__", first, value.lanes.shape)
    return value.filled(0)


def _spread(target: Tensor, entries: list[Any], value: Selection) -> None:
    """Write selected values to the elements selected by the same mask."""
    at = [i for i, each in enumerate(entries) if isinstance(each, _NO_VIEW)]
    indices = parse(tuple(target.shape), tuple(entries)).indices
    if len(at) != 1 or len(indices) != 1 or not is_mask(next(iter(indices.values()))):
        refuse_operator("__setitem__", value)
    ((place, array),) = indices.items()
    mask = Tensor._wrap(array)
    agreeing("__setitem__", (value, Selection.of(mask, mask.reshape(-1), 0, value.line)))
    if value.dtype is not target.dtype:
        # Allowed for a single value, whose number is not known here.
        refuse_operator("__setitem__", value)
    # A 0-d mask inserts a dimension.
    covered = (slice(None),) * entries[at[0]].ndim or (None,)
    whole = (*entries[: at[0]], *covered, *entries[at[0] + 1 :])
    part = target[whole]
    behind = part.ndim - place - mask.ndim
    if value.depth != behind + 1:
        refuse_length_of_other("__setitem__", value, part.shape)
    shape = tuple(value.lanes.shape)
    lanes = value.lanes.reshape(*shape[: value.hidden], *mask.shape, *shape[value.hidden + 1 :])
    target[whole] = where(mask.reshape(*mask.shape, *(1,) * behind), lanes, part)


def _overwrite_part(target: Selection, entries: list[Any], value: Any) -> None:
    """Write to a Selection itself: at a mask of as many elements, or at slices within the lanes."""
    if len(entries) == 1 and isinstance(entries[0], Selection) and entries[0].ndim == target.ndim:
        agreeing("__setitem__", (target, entries[0]))
        if target.ndim > 1 and not isinstance(value, Tensor):
            target.lanes = target.lanes.masked_fill(entries[0].lanes, value)
            return
    if len(entries) == 1 and isinstance(entries[0], Selection) and entries[0].ndim == 1:
        refined = _refined(target, entries[0])
        if isinstance(value, Selection):
            if not refined.is_as_long_as(value) or refined.depth != value.depth:
                agreeing("__setitem__", (refined, value))
                refuse_operator("__setitem__", target)
            value = value.lanes
        elif isinstance(value, Tensor):
            value = broadcast("__setitem__", refined, value)
        written = where(broadcastable(refined.mask, refined.depth), value, target.lanes)
        target.lanes = written.to(target.dtype)
        return
    if any(isinstance(each, _NO_VIEW) for each in entries) or isinstance(value, Tensor):
        refuse_operator("__setitem__", target)
    entries, place = _spelled_out(target, entries)
    if entries[place] != slice(None):
        refuse_operator("__setitem__", target)
    target.lanes[tuple(entries)] = value


# Functions of indices


def index_select(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `index_select` of an ordinary tensor."""
    given = by_name(func, args, kwargs)
    source, index = given["input"], given["index"]
    if isinstance(source, Selection):
        return _beside_lanes(func, given)
    given["index"] = index.filled(0)
    dim = wrap_dim(given["dim"], source.ndim, "index_select")
    return entered(func(**given), index.mask, dim, index.line)


def _beside_lanes(func: Callable[..., Any], given: dict[str, Any]) -> Any:
    source = given["input"]
    if (
        isinstance(given["index"], Selection)
        or wrap_dim(given["dim"], source.ndim, func.__name__) == source.hidden
    ):
        refuse_operator(func.__name__, source)
    given["input"] = source.lanes
    return source.like(func(**given))


def lookup(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of operators that look up a value for each selected element."""
    given = by_name(func, args, kwargs)
    # `take`, `isin`, and the others.
    argument = next(name for name in ("index", "elements", "input") if name in given)
    index = given[argument]
    if not isinstance(index, Selection):
        refuse_operator(func.__name__, agreeing(func.__name__, given.values()))
    for key, each in given.items():
        if key != argument and isinstance(each, Selection):
            refuse_operator(func.__name__, each)
    if given.get("scale_grad_by_freq"):
        refuse_operator(func.__name__, index)
    given[argument] = index.filled(0)
    return entered(func(**given), index.mask, index.hidden, index.line)


def gather(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `gather` and `take_along_dim`, in each lane."""
    given = by_name(func, args, kwargs)
    argument = "index" if "index" in given else "indices"
    source, index, dim = given["input"], given[argument], given["dim"]
    first = agreeing(func.__name__, (source, index))
    for each in (source, index):
        if not isinstance(each, Selection):
            refuse_length_of_other(func.__name__, first, each.shape)
    if dim is None or source.hidden != index.hidden:
        refuse_operator(func.__name__, first)
    if wrap_dim(dim, source.ndim, func.__name__) == source.hidden:
        refuse_operator(func.__name__, first)
    given.update({"input": source.lanes, argument: index.lanes})
    return source.like(func(**given))


def masked_select(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `masked_select` by a mask of as many elements."""
    given = by_name(func, args, kwargs)
    source, mask = given["input"], given["mask"]
    first = agreeing("masked_select", (source, mask))
    alike = isinstance(source, Selection) and isinstance(mask, Selection)
    if not alike or source.lanes.shape != mask.lanes.shape:
        refuse_operator("masked_select", first)
    return _refined(source, mask)


def masked_fill(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `masked_fill`, whose value may be a 0-d tensor and must stay one."""
    given = by_name(Tensor.masked_fill, args, kwargs)
    value = given["value"]
    if not isinstance(value, Tensor):
        return elementwise(func, args, kwargs)
    if value.ndim or isinstance(value, Selection) or func.__name__.endswith("_"):
        refuse_operator(func.__name__, agreeing(func.__name__, given.values()))
    source = given["input"]
    return elementwise(where, (given["mask"], value.to(source.dtype), source), {})


def masked_scatter(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `masked_scatter` with elements selected by the same mask."""
    given = by_name(getattr(Tensor, func.__name__.rstrip("_")), args, kwargs)
    target, mask, source = given["input"], given["mask"], given["source"]
    first = agreeing(func.__name__, given.values())
    if source is not first or source.ndim != 1 or isinstance(target, Selection):
        refuse_operator(func.__name__, first)
    found = target if func.__name__.endswith("_") else target.clone()
    _spread(found, [mask if mask.shape == target.shape else mask.expand(target.shape)], source)
    return found


def counted(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `bincount`, which ignores integers from ``minlength`` on."""
    given = by_name(func, args, kwargs)
    input, weights, length = given["input"], given["weights"], given["minlength"]
    first = agreeing("bincount", (input, weights))
    if not length or not isinstance(input, Selection):
        refuse_operator("bincount", first)
    if isinstance(weights, Selection):
        weights = weights.filled(0)
    elif weights is not None:
        refuse_length_of_other("bincount", first, weights.shape)
    return func(input.filled(length), weights, length)


def accumulate(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `index_add`, `index_fill`, `index_copy` and of `scatter_add` on vectors."""
    name = func.__name__
    # The parameters are those of the function without the underscore.
    given = by_name(getattr(Tensor, name.rstrip("_")), args, kwargs)
    first = agreeing(name, given.values())
    target, index = given.pop("input"), given["index"]
    is_along = wrap_dim(given["dim"], target.ndim, name) + 1 if index.ndim == 1 else 0
    if isinstance(target, Selection) or not isinstance(index, Selection) or not is_along:
        refuse_operator(name, first)
    if "scatter" in name and target.ndim != 1:
        refuse_operator(name, first)
    given["index"] = index.filled(max((*target.shape, 1)))
    for key in ("source", "src"):
        each = given.get(key)
        if isinstance(each, Selection):
            if each.hidden != is_along - 1:
                refuse_operator(name, first)
            given[key] = each.filled(0)
        elif isinstance(each, Tensor):
            refuse_length_of_other(name, first, each.shape)
    return func(target, **given)
