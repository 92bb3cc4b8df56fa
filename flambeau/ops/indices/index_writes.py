"""Writes to slices, flat positions and masked elements: `index_add`, `put`, `masked_fill`, …

A position out of range is an error in eager mode on the CPU. In compiled programs and on other
devices it is not written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.fusion.stream import seen
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.kernels.kinds import Array, Operand
from flambeau.core.kernels.promotion import check_broadcast
from flambeau.core.operators import writing
from flambeau.core.operators.dispatch import run_with_constants
from flambeau.core.operators.op import function, op
from flambeau.core.operators.viewing import node_name_of_view
from flambeau.core.support.generations import remembered
from flambeau.core.values.steps import Step
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.view import result_of, write_fitted
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.common.known import is_unknown
from flambeau.ops.indices.gathering import check_flat
from flambeau.ops.indices.placement import along, check_positions, inside, needs_integers, overwrite
from flambeau.ops.indices.scattering import combined
from flambeau.ops.shapes.slicing import diagonal_step, select_step, slice_step

__all__ = [
    "diagonal_scatter", "index_add", "index_copy", "index_fill", "index_reduce", "masked_fill",
    "masked_scatter", "put", "select_scatter", "slice_scatter",
]  # fmt: skip


def _in_place_too(declared: Callable[..., Any]) -> Callable[..., Any]:
    """Define the method ``name_`` of a function ``name``."""

    def in_place(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return writing.put(self, declared(self, *args, **kwargs), in_place.__name__)

    in_place.__name__ = in_place.__qualname__ = f"{declared.__name__}_"
    in_place.__doc__ = f"`{declared.__name__}`, in place: the tensor is overwritten and returned."
    function(in_place, method=True)
    return declared


# Whole slices at positions of one dimension


def _check_slices(
    input: Tensor, dim: Any, index: Tensor, source: Tensor | None, error: type[Exception], name: str
) -> int:
    """Check the arguments of `index_add` and the like; return the dimension from the front."""
    dim = wrap_dim(dim, input.ndim, name)
    if index.ndim > 1:
        raise IndexError(f"{name}(): index must be a vector, got shape {list(index.shape)}")
    if source is not None:
        _check_dimensions(input, source, error, name)
        if source.dtype is not input.dtype:
            raise RuntimeError(
                f"{name}(): source of {source.dtype} cannot go into a tensor of {input.dtype}; "
                "convert one first"
            )
        _check_source(input, dim, index, source, error, name)
    return dim


def _check_dimensions(input: Tensor, source: Tensor, error: type[Exception], name: str) -> None:
    if input.ndim and source.ndim and input.ndim != source.ndim and error is IndexError:
        raise IndexError(
            f"{name}(): a source of shape {list(source.shape)} and a tensor of shape "
            f"{list(input.shape)} must have as many dimensions"
        )


def _check_source(
    input: Tensor, dim: int, index: Tensor, source: Tensor, error: type[Exception], name: str
) -> None:
    wanted = list(input.shape) or [1]
    given = list(source.shape) or [1]
    if len(given) == len(wanted) and given[dim] != index.numel():
        raise (error if source.ndim else IndexError)(
            f"{name}(): {index.numel()} indices do not fit a source of size {given[dim]} in "
            f"dimension {dim}"
        )
    wanted[dim] = index.numel()
    only_one_has_dimensions = bool(input.ndim) != bool(source.ndim) and error is RuntimeError
    if given != wanted or only_one_has_dimensions:
        raise RuntimeError(
            f"{name}(): a source of shape {list(source.shape)} does not fit a tensor of shape "
            f"{list(input.shape)}: apart from dimension {dim} the shapes must be equal"
        )


def _size(input: Tensor, dim: int) -> int:
    return input.shape[dim] if input.ndim else 1


def _at(dim: int, places: Any) -> tuple[Any, ...]:
    return (*(slice(None),) * dim, places)


def _as_slices(array: Any, dim: int, index: Any, source: Any) -> tuple[Any, Any]:
    """Array and source with at least one dimension, the source in the replaced part's shape."""
    array = array if array.ndim else array.reshape(1)
    shape = (*array.shape[:dim], index.size, *array.shape[dim + 1 :])
    return array, source.reshape(shape)


@op(name="index_add", widen=True, linear=True)
def _index_add(input: Array, dim: int, index: Array, source: Array, alpha: Operand) -> Array:
    array, source = _as_slices(input, dim, index, source)
    source = jnp.asarray(alpha, input.dtype) * source
    places = inside(index.reshape(-1), array.shape[dim])
    return array.at[_at(dim, places)].add(source, mode="drop").reshape(input.shape)


@_in_place_too
@function(method=True)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Any:
    """A copy with ``alpha`` times the slices of ``source`` added at positions ``index`` of ``dim``.

    Args:
        index: A vector of integers from 0 on; a position may appear several times.
        source: As many slices as ``index`` has elements, with the shape and dtype of the slices of
            ``input``.

    Raises:
        RuntimeError: Dtypes or shapes do not fit, or positions are out of range.
        IndexError: ``index`` is not a vector, or the dimension is out of range.
    """
    needs_integers("index_add", index)
    dim = _check_slices(input, dim, index, source, RuntimeError, "index_add")
    check_positions(index, 0, _size(input, dim), dim, RuntimeError, "index_add")
    return _index_add(input, dim, index, source, alpha)


@op(name="index_copy", linear=True)
def _index_copy(input: Array, dim: int, index: Array, source: Array) -> Array:
    array, source = _as_slices(input, dim, index, source)
    places = inside(index.reshape(-1), array.shape[dim])
    written: Any = overwrite((dim,), array, source, places)
    return written.reshape(input.shape)


@_in_place_too
@function(method=True)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    """A copy with the slices at positions ``index`` of ``dim`` replaced by ``source``.

    Raises:
        RuntimeError: Dtypes or shapes do not fit.
        IndexError: Positions or the dimension are out of range, or ``index`` is not a vector.
    """
    needs_integers("index_copy", index, long_only=True)
    dim = _check_slices(input, dim, index, source, IndexError, "index_copy")
    check_positions(index, 0, _size(input, dim), dim, IndexError, "index_copy")
    return _index_copy(input, dim, index, source)


@op(name="index_fill", widen=True, linear=True)
def _index_fill(input: Array, dim: int, index: Array, value: Operand) -> Array:
    array = input if input.ndim else jnp.reshape(input, 1)
    value = jnp.asarray(value, input.dtype)
    places = inside(index.reshape(-1), array.shape[dim], wraps=True)
    return array.at[_at(dim, places)].set(value, mode="drop").reshape(input.shape)


def _check_number(name: str, value: Any) -> None:
    if not isinstance(value, Tensor | int | float | complex | np.generic | jax.Array):
        kind = type(value).__name__
        raise TypeError(f"{name}(): value must be a number or a Tensor, got {kind}: {value!r:.80}")


@_in_place_too
@function(method=True)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Any:
    """A copy with the slices at positions ``index`` of ``dim`` filled with ``value``.

    Args:
        index: A vector of integers; negative ones count from the end.
        value: A number or a 0-d tensor.

    Raises:
        IndexError: Positions or the dimension are out of range, or ``index`` is not of int64.
        RuntimeError: ``value`` does not fit.
    """
    _check_number("index_fill", value)
    needs_integers("index_fill", index, long_only=True, error=IndexError)
    _check_value(input, value, "index_fill")
    if index.ndim > 1:
        raise RuntimeError(f"index_fill(): index must be a vector, got shape {list(index.shape)}")
    dim = wrap_dim(dim, input.ndim, "index_fill")
    size = _size(input, dim)
    check_positions(index, -size, size, dim, IndexError, "index_fill")
    return _index_fill(input, dim, index, value)


def _check_value(input: Tensor, value: Any, name: str) -> None:
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"{name}(): value must be a number or a 0-d tensor, got shape {list(value.shape)}"
        )
    if not isinstance(value, Tensor):
        writing.check_fits(value, input, name)


@op(name="index_reduce", widen=True)
def _index_reduce(
    input: Array, dim: int, index: Array, source: Array, reduce: str, include_self: bool
) -> Array:
    array, source = _as_slices(input, dim, index, source)
    shape = [1] * array.ndim
    shape[dim] = -1
    everywhere = jnp.broadcast_to(index.reshape(shape), source.shape)
    combine = functools.partial(combined, reduce=reduce, include_self=include_self)
    return jnp.reshape(along(combine, dim, array, everywhere, source), input.shape)


@_in_place_too
@function(method=True)
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """A copy in which the slices of ``source`` for each position of ``dim`` are combined.

    Args:
        reduce: ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: Whether the present slice is included.

    Raises:
        RuntimeError: Dtypes or shapes do not fit, or ``reduce`` is unknown.
        IndexError: Positions or the dimension are out of range, or ``index`` is not a vector.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): reduce must be prod, mean, amax or amin, got {reduce!r}"
        )
    needs_integers("index_reduce", index)
    dim = _check_slices(input, dim, index, source, RuntimeError, "index_reduce")
    check_positions(index, 0, _size(input, dim), dim, IndexError, "index_reduce")
    return _index_reduce(input, dim, index, source, reduce, include_self)


# Flat positions


@op(name="put", widen=True, linear=True)
def _put(input: Array, index: Array, source: Array, accumulate: bool) -> Array:
    flat, source = input.reshape(-1), source.reshape(-1)
    places = inside(index.reshape(-1), flat.size, wraps=True)
    if accumulate:
        return flat.at[places].add(source, mode="drop").reshape(input.shape)
    written: Any = overwrite((0,), flat, source, places)
    return written.reshape(input.shape)


@_in_place_too
@function(method=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Any:
    """A copy with the elements at positions ``index`` of the flattened tensor replaced.

    Args:
        index: Integers; negative ones count from the end.
        source: As many values as positions, in the dtype of ``input``.
        accumulate: Add the values instead.

    Raises:
        IndexError: A position is out of range, or there are not as many values as positions.
        RuntimeError: A dtype does not fit.
    """
    needs_integers("put", index, long_only=True)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"put(): source of {source.dtype} cannot go into a tensor of {input.dtype}; "
            "convert one first"
        )
    if source.numel() != index.numel():
        raise IndexError(
            f"put(): {source.numel()} values do not fit {index.numel()} positions in index"
        )
    check_flat(input, index, "put")
    return _put(input, index, source, accumulate)


# Masks


def _check_mask(mask: Any, name: str) -> None:
    if mask.dtype.name != "bool":
        raise RuntimeError(f"{name}(): mask must be of bool, got {mask.dtype.name}")


@op(name="masked_fill", widen=True, linear=True)
def _masked_fill(input: Array, mask: Array, value: Operand) -> Array:
    return jnp.where(mask, jnp.asarray(value, input.dtype), input)


@_in_place_too
@function(method=True)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Any:
    """``value`` where ``mask`` is true, the elements elsewhere; the two are broadcast.

    Args:
        mask: A bool tensor.
        value: A number or a 0-d tensor.

    Raises:
        RuntimeError: ``mask`` is not of bool, ``value`` has dimensions or does not fit the dtype of
            ``input``, or the shapes do not broadcast.
    """
    _check_mask(mask, "masked_fill")
    _check_number("masked_fill", value)
    _check_value(input, value, "masked_fill")
    if isinstance(value, Tensor) and value.is_complex() and not input.is_complex():
        raise RuntimeError(f"masked_fill(): a complex value does not fit a tensor of {input.dtype}")
    return _masked_fill(input, mask, value)


@op(name="masked_scatter", linear=True)
def _masked_scatter(input: Array, mask: Array, source: Array) -> Array:
    shape = jnp.broadcast_shapes(input.shape, mask.shape)
    input, mask = jnp.broadcast_to(input, shape), jnp.broadcast_to(mask, shape)
    if not source.size:
        return input
    number = jnp.cumsum(mask.reshape(-1)).reshape(shape) - 1
    own = source.reshape(-1).at[jnp.maximum(number, 0)].get(mode="fill")
    return jnp.where(mask, own, input)


@_in_place_too
@function(method=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Any:
    """A copy with the elements where ``mask`` is true replaced by those of ``source``, in order.

    Args:
        mask: A bool tensor, broadcast with ``input``.
        source: At least as many values as ``mask`` has true elements, in the dtype of ``input``.

    Raises:
        RuntimeError: A dtype does not fit, or there are too few values.
    """
    _check_mask(mask, "masked_scatter")
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"masked_scatter(): source of {source.dtype} cannot go into a tensor of {input.dtype}; "
            "convert one first"
        )
    array = mask._read()
    check_broadcast(input, mask)
    if not is_unknown(array):
        shape = np.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
        wanted = int(np.broadcast_to(np.asarray(seen(array)), shape).sum())
        if wanted > source.numel():
            raise RuntimeError(
                f"masked_scatter(): mask has {wanted} true elements, source only {source.numel()}"
            )
    return _masked_scatter(input, mask, source)


# Copies with the viewed part replaced


@remembered
def _part_kernel(step: Step, name: str) -> Kernel:
    def replaced(array: Any, src: Any, starts: Any) -> Any:
        return write_fitted((step,), array, starts, src)

    return Kernel(replaced, name, node_name_of_view(name), linear=True)


def _with_part(input: Tensor, src: Tensor, step: Step, starts: Any, name: str) -> Any:
    shape, _ = result_of((step,), tuple(input.shape), input.dtype.numpy)
    if tuple(src.shape) != shape:
        raise RuntimeError(
            f"{name}(): src of shape {list(src.shape)} does not fit the part of shape "
            f"{list(shape)} that it replaces"
        )
    positions = None if starts is None else np.array(starts, np.int64)
    return run_with_constants(_part_kernel(step, name), (input, src), (positions,))


@function(method=True)
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Any:
    """A copy of ``input`` whose part ``input.select(dim, index)`` is ``src``.

    Raises:
        IndexError: The index or the dimension is out of range.
        RuntimeError: ``src`` is not of that part's shape.
    """
    step, starts = select_step(input, dim, index, "select_scatter")
    return _with_part(input, src, step, starts, "select_scatter")


@function(method=True)
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Any:
    """A copy of ``input`` whose positions ``start:end:step`` of ``dim`` are ``src``.

    Raises:
        IndexError: The dimension is out of range.
        RuntimeError: ``src`` is not of that part's shape.
    """
    cut, starts = slice_step(input, dim, slice(start, end, step), "slice_scatter")
    return _with_part(input, src, cut, starts, "slice_scatter")


@function(method=True)
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    """A copy of ``input`` whose diagonal, see `diagonal`, is ``src``.

    Raises:
        IndexError: A dimension is out of range.
        RuntimeError: ``src`` is not of the diagonal's shape.
    """
    step = diagonal_step(input, offset, dim1, dim2, "diagonal_scatter")
    return _with_part(input, src, step, None, "diagonal_scatter")
