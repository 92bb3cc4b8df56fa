"""Reading and writing by subscript, ``x[...]`` and ``x[...] = value``, and `index_put`."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from flambeau.core.kernels.kernel import Kernel
from flambeau.core.kernels.kinds import SIZES
from flambeau.core.kernels.single_precision import single, spread
from flambeau.core.operators.dispatch import run_with_constants
from flambeau.core.operators.misfits import require_tensors
from flambeau.core.operators.op import function
from flambeau.core.operators.overrides import flattened, handle_torch_function, has_torch_function
from flambeau.core.operators.viewing import make_view, unrecorded_view
from flambeau.core.operators.writing import assign, check_fits, put
from flambeau.core.support.generations import remembered
from flambeau.core.support.modes import modes
from flambeau.core.support.tracebacks import trim
from flambeau.core.values.steps import Reshape
from flambeau.core.values.tensor import PLAIN_TYPES, Tensor, method
from flambeau.ops.common.derivatives import moved
from flambeau.ops.indices.placement import all_inside, full_subscript, overwrite
from flambeau.ops.indices.subscript import (
    Subscript,
    check_bounds,
    check_broadcast,
    is_mask,
    key_of,
    parse,
    with_positions,
    without_masks,
)
from flambeau.ops.selections.selection import coordinates, is_selected_by, select

__all__ = ["index_put", "index_put_"]

Dims: TypeAlias = Annotated[tuple[int, ...], SIZES]


def _getitem(self: Tensor, index: Any) -> Any:
    """The part of the tensor at ``index``: a view unless it holds arrays, lists or masks.

    In a compiled program a mask gives a `Selection`, since the number of its elements is not known,
    and index arrays are not checked: positions out of range read NaN, or the least integer.

    Raises:
        IndexError: An entry is out of bounds or does not fit.
        ValueError: A slice has a step below 1.
    """
    try:
        key = key_of(index)
        if key is None or type(self) not in PLAIN_TYPES:
            given = (self, index)
            if has_torch_function(flattened(given)):
                return handle_torch_function(Tensor.__getitem__, flattened(given), self, index)
        shape = tuple(self.shape)
        if not shape and (type(index) is int or type(index) is slice):
            raise IndexError("a 0-d tensor cannot be indexed; item() gives its number")
        subscript = parse(shape, index, key)
        view = self
        for step, name, starts in subscript.steps:
            view = make_view(view, step, name, starts)
        if subscript.indices:
            return read(view, subscript.indices)
        return view if view is not self else make_view(self, Reshape(shape), subscript.name)
    except Exception as error:
        trim(error)
        raise


def read(source: Tensor, indices: dict[int, Any]) -> Tensor:
    """The elements of ``source`` at index arrays, by the dimension that each indexes.

    Raises:
        IndexError: A position is out of range, or the arrays do not broadcast.
    """
    if modes.trace is not None and any(map(is_selected_by, indices.values())):
        indices = with_positions(indices)
        if any(map(is_mask, indices.values())):
            return _selected(source, indices)
    indices = without_masks(indices)
    check_broadcast(indices)
    check_bounds(indices, tuple(source.shape))
    kernel = _index_kernel(tuple(indices))
    return run_with_constants(kernel, (source,), _beside(source, indices))


def _selected(source: Tensor, indices: dict[int, Any]) -> Tensor:
    """The elements of ``source`` under a mask while its program is being compiled."""
    if len(indices) == 1:
        ((dim, mask),) = indices.items()
        return select(source, dim, mask)
    entries: list[Any] = [slice(None)] * source.ndim
    for dim, index in indices.items():
        if is_mask(index):
            found = coordinates(index)
            entries[dim : dim + len(found)] = found
        else:
            entries[dim] = Tensor._wrap(index)
    return source[tuple(entries)]


@remembered
def _index_kernel(dims: Dims) -> Kernel:
    def index(array: Any, *indices: Any) -> Any:
        return moved(picked, array, *indices)

    def picked(array: Any, *indices: Any) -> Any:
        places = all_inside(array.shape, dims, indices, wraps=True)
        return array.at[full_subscript(array.ndim, dims, places)].get(mode="fill")

    return Kernel(index, "index", "IndexBackward0", linear=True)


def _beside(source: Tensor, indices: dict[int, Any]) -> tuple[Any, ...]:
    """The index arrays on the elements' device: PyTorch accepts CPU indices for any device."""
    array = source._cell.array
    if isinstance(array, Tracer | jax.ShapeDtypeStruct):
        return tuple(indices.values())
    (place,) = array.devices() if len(array.devices()) == 1 else (None,)
    return tuple(
        jax.device_put(index, place)
        if place is not None
        and isinstance(index, jax.Array)
        and not isinstance(index, Tracer)
        and index.devices() != {place}
        else index
        for index in indices.values()
    )


# Writing


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    """Overwrite the part at ``index`` by a tensor or number, which is broadcast.

    ``x[mask] = number`` also works in a compiled program. If index arrays contain an element
    several times, any of the values may be stored.

    Raises:
        IndexError: An entry is out of bounds or does not fit.
        RuntimeError: The value does not broadcast, or has another dtype than the tensor and the
            subscript holds index arrays; or the tensor is a leaf that requires grad.
        TypeError: The value is not a tensor or number.
    """
    try:
        key = key_of(index)
        given = (self, index, value)
        if has_torch_function(flattened(given if key is None else (self, value))):
            handle_torch_function(Tensor.__setitem__, flattened(given), *given)
            return
        value = _assignable(value)
        shape = tuple(self.shape)
        if not shape and (type(index) is int or type(index) is slice):
            raise IndexError(
                "a 0-d tensor cannot be indexed; use x[()] or fill_() to set its number"
            )
        subscript = parse(shape, index, key)
        if isinstance(value, Tensor) and value.device != self.device:
            value = value.to(self.device)
        if not subscript.indices:
            target = _target(self, subscript, unrecorded_view)
            assign(target, value, "copy_" if isinstance(value, Tensor) else "fill_")
            return
        maker = make_view if modes.grad_enabled else unrecorded_view
        write(_target(self, subscript, maker), subscript.indices, value, name="index_put_")
    except Exception as error:
        trim(error)
        raise


def _assignable(value: Any) -> Any:
    if isinstance(value, Tensor | bool | int | float | complex):
        return value
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(
        f"a tensor's elements can be set to a Tensor or number, got {type(value).__name__}; "
        "use flambeau.tensor() on it"
    )


def _target(source: Tensor, subscript: Subscript, maker: Any) -> Tensor:
    view = source
    for step, name, starts in subscript.steps:
        view = maker(view, step, name, starts)
    return view


def write(
    target: Tensor, indices: dict[int, Any], value: Any, *, name: str, accumulate: bool = False
) -> Tensor:
    """Overwrite, or add to, the elements of ``target`` at index arrays; see `index_put_`."""
    written = written_copy(target, indices, value, accumulate=accumulate, name=name)
    return put(target, written, name)


def written_copy(
    source: Tensor, indices: dict[int, Any], value: Any, *, accumulate: bool, name: str
) -> Tensor:
    """A copy of ``source`` with ``value`` written, or added, to the elements at index arrays.

    Raises:
        IndexError: A position is out of range, or the arrays do not broadcast.
        RuntimeError: The value does not broadcast, or has another dtype.
    """
    if isinstance(value, Tensor) and value.dtype is not source.dtype:
        if accumulate or value.numel() != 1 or not _is_one_mask(indices):
            raise RuntimeError(
                f"{name}(): values of {value.dtype} cannot go into a tensor of {source.dtype}; "
                "convert one first"
            )
        # A fill, which takes a number of any dtype.
        value = value.reshape(()).to(source.dtype)
    if not isinstance(value, Tensor):
        check_fits(value, source, name, to_infinity=True)
    kernel, constants = _plan(source, indices, value, accumulate)
    if isinstance(value, Tensor):
        return run_with_constants(kernel, (source, value), constants)
    return run_with_constants(kernel, (source,), (value, *constants))


def _is_one_mask(indices: dict[int, Any]) -> bool:
    """Whether elements are chosen by a mask alone, which has dimensions."""
    return len(indices) == 1 and all(is_mask(each) and each.ndim for each in indices.values())


def _plan(
    source: Tensor, indices: dict[int, Any], value: Any, accumulate: bool
) -> tuple[Kernel, tuple[Any, ...]]:
    """The kernel that writes, with its index arrays or mask."""
    shape = tuple(source.shape)
    if len(indices) == 1:
        ((dim, index),) = indices.items()
        if is_mask(index):
            span = index.ndim
            if _same_for_all(value, len(shape) - dim - span):
                return _masked_kernel(dim, accumulate), _beside(source, indices)
            if isinstance(index, Tracer) and value.ndim == len(shape) - span + 1:
                return _spread_kernel(dim, accumulate), _beside(source, indices)
    indices = without_masks(indices)
    check_broadcast(indices)
    check_bounds(indices, shape)
    return _put_kernel(tuple(indices), accumulate), _beside(source, indices)


def _same_for_all(value: Any, trailing: int) -> bool:
    """Whether every element under a mask is set to the same value."""
    if not isinstance(value, Tensor):
        return True
    shape = tuple(value.shape)
    return all(size == 1 for size in shape[: max(len(shape) - trailing, 0)])


@remembered
def _put_kernel(dims: Dims, accumulate: bool) -> Kernel:
    def index_put(array: Any, value: Any, *indices: Any) -> Any:
        places = all_inside(array.shape, dims, indices, wraps=True)
        return _scattered(array, _prepared(value, array, dims, places), dims, accumulate, places)

    return Kernel(index_put, "index_put", "IndexPutBackward0", linear=True)


def _prepared(value: Any, array: Any, dims: Dims, indices: tuple[Any, ...]) -> Any:
    """The value in the shape of the elements at the index arrays."""
    named = jax.eval_shape(
        lambda a, *i: a[full_subscript(a.ndim, dims, i)], array, *indices
    ).shape  # fmt: skip
    value = jnp.asarray(value, array.dtype)
    shape = value.shape
    while len(shape) > len(named) and shape[0] == 1:
        shape = shape[1:]
    try:
        return spread(value.reshape(shape), named)
    except ValueError:
        raise RuntimeError(
            f"index_put(): a value of shape {list(value.shape)} does not broadcast to the shape "
            f"{list(named)} that the indices name"
        ) from None


def _scattered(
    array: Any, value: Any, dims: Dims, accumulate: bool, indices: tuple[Any, ...]
) -> Any:
    if not accumulate:
        return overwrite(dims, array, value, *indices)
    named = single(array).at[full_subscript(array.ndim, dims, indices)]
    # The sum of bools is their disjunction.
    write = named.max if array.dtype == np.bool_ else named.add
    return write(single(value), mode="drop").astype(array.dtype)


@remembered
def _masked_kernel(dim: int, accumulate: bool) -> Kernel:
    """Writes one value to all elements under a mask."""

    def index_put(array: Any, value: Any, mask: Any) -> Any:
        value = jnp.asarray(value, array.dtype)
        trailing = array.ndim - dim - mask.ndim
        shape = value.shape[max(value.ndim - trailing, 0) :]
        value = value.reshape(shape)
        mask = mask.reshape(mask.shape + (1,) * trailing)
        value = spread(value, array.shape)
        return jnp.where(mask, array + value if accumulate else value, array)

    return Kernel(index_put, "index_put", "IndexPutBackward0", linear=True)


@remembered
def _spread_kernel(dim: int, accumulate: bool) -> Kernel:
    """Writes the n-th of several values to the n-th element under a traced mask."""

    def index_put(array: Any, value: Any, mask: Any) -> Any:
        if value.shape[dim] == 0:
            # The mask picks nothing: the program was told so.
            return array
        number = jnp.cumsum(mask.reshape(-1)).reshape(mask.shape) - 1
        own = jnp.take(value, jnp.clip(number, 0), axis=dim, mode="clip")
        mask = mask.reshape(mask.shape + (1,) * (array.ndim - dim - mask.ndim))
        return jnp.where(mask, array + own if accumulate else own, array)

    return Kernel(index_put, "index_put", "IndexPutBackward0", linear=True)


# Overrides get the functions under these names.
_getitem.__name__, _setitem.__name__ = "__getitem__", "__setitem__"
Tensor.__getitem__ = _getitem
Tensor.__setitem__ = _setitem


@method
def __delitem__(self: Tensor, index: Any) -> None:
    raise TypeError(
        f"del x[{index!r:.80}]: elements of a tensor cannot be deleted; index those that stay"
    )


@function(method=True)
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    """A copy of ``input`` whose elements at ``indices`` are ``values``.

    Args:
        indices: A tuple of index tensors, one for each of the first dimensions.
        values: A tensor of the same dtype that broadcasts to the shape of ``input[indices]``.
        accumulate: Add the values instead; repeated positions accumulate.

    Raises:
        IndexError: A position is out of range, or the index tensors do not broadcast.
        RuntimeError: The dtypes differ, or the values do not broadcast.
    """
    require_tensors("index_put", values=values)
    arrays = _index_arrays(input, indices)
    return written_copy(input, arrays, values, accumulate=accumulate, name="index_put")


@function(method=True)
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Any:
    """`index_put`, in place: the tensor is overwritten and returned."""
    require_tensors("index_put_", values=values)
    arrays = _index_arrays(input, indices)
    return write(input, arrays, values, name="index_put_", accumulate=accumulate)


def _index_arrays(source: Tensor, indices: Any) -> dict[int, Any]:
    if not isinstance(indices, list | tuple) or not all(isinstance(i, Tensor) for i in indices):
        raise TypeError("index_put(): indices must be a tuple of Tensors")
    reshaped = tuple(each.reshape(1) if not each.ndim else each for each in indices)
    subscript = parse(tuple(source.shape), reshaped)
    return subscript.indices
