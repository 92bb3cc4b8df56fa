"""Tensors of ordered numbers: ranges, and the indices of triangles."""

from __future__ import annotations

import math
from typing import Any, Unpack

import numpy as np

from flambeau.core.devices.device import as_device
from flambeau.core.operators.overrides import asks
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.dtype import FLOATING, INTEGER
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.dims import is_open
from flambeau.ops.factories.factory import (
    Options,
    as_size,
    asked,
    check_number,
    checked_dtype,
    factory,
    produce,
    shape_of,
    wrap_new,
)

__all__ = ["arange", "linspace", "logspace", "tril_indices", "triu_indices"]


@factory
def arange(
    *bounds: Any, start: Any = None, end: Any = None, step: Any = None, **options: Unpack[Options]
) -> Any:
    """The numbers ``start, start + step, ...`` below ``end``, as a 1-d tensor.

    Args:
        bounds: ``end``; or ``start, end``; or ``start, end, step``. Each can be given by name.
        options: See `factory.Options`; the dtype is by default int64, or the default dtype if a
            bound or the step is a float.

    Raises:
        TypeError: No ``end`` was given, or an argument is not a number.
        RuntimeError: The step is zero or leads away from ``end``; a bound is not finite.
    """
    start, end, step = _range_bounds(bounds, start, end, step)
    new = asked("arange", **options)
    dtype = new.dtype
    if dtype is None:
        all_integers = all(isinstance(each, int) or is_open(each) for each in (start, end, step))
        dtype = dtypes.int64 if all_integers else dtypes.get_default_dtype()
    if dtype.category not in (INTEGER, FLOATING):
        raise NotImplementedError(f"arange(): not possible for {dtype}; convert the result instead")
    if dtype.category == INTEGER:
        whole = [*map(_whole, (start, end, step))]
        length = _range_length(*whole if dtype is dtypes.int64 else (start, end, step))
        start, _, step = whole
        work: Any = np.int64
    else:
        length = _range_length(start, end, step)
        start, step, work = float(start), float(step), np.float64

    def build(lib: Any) -> Any:
        return (start + step * lib.arange(length, dtype=work)).astype(dtype.numpy)

    return new.tensor(produce((length,), dtype, new.device, build))


def _range_bounds(bounds: tuple[Any, ...], start: Any, end: Any, step: Any) -> list[Any]:
    if len(bounds) > 3:
        raise TypeError(f"arange() takes start, end and step, got {len(bounds)} bounds")
    if len(bounds) == 1 and end is None:
        bounds = (None, *bounds)
    names = ("start", "end", "step")
    values = [start, end, step]
    for i, bound in enumerate(bounds):
        if bound is not None:
            if values[i] is not None:
                raise TypeError(f"arange() got {names[i]} twice")
            values[i] = bound
    if values[1] is None:
        raise TypeError("arange() needs an end")
    defaults = (0, None, 1)
    values = [d if v is None else v for v, d in zip(values, defaults, strict=True)]
    for i, name in enumerate(names):
        value = check_number("arange", name, values[i])
        values[i] = value.item() if isinstance(value, Tensor) else value
    return values


def _whole(value: Any) -> Any:
    return value if is_open(value) else int(value)


def _range_length(start: Any, end: Any, step: Any) -> int:
    if step == 0:
        raise RuntimeError("arange(): step must not be zero")
    is_symbolic = is_open(start) or is_open(end)
    if not is_symbolic and not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"arange(): the range from {start} to {end} is not finite")
    if (end - start) * step < 0:
        raise RuntimeError(f"arange(): a step of {step} does not lead from {start} to {end}")
    if is_symbolic or (isinstance(start, int) and isinstance(end, int) and isinstance(step, int)):
        return -((start - end) // step)
    if not math.isfinite(float(step)):
        raise RuntimeError(f"the step must be finite and not zero, got {step}")
    return math.ceil((float(end) - float(start)) / float(step))


@factory
def linspace(start: Any, end: Any, steps: Any, **options: Unpack[Options]) -> Any:
    """``steps`` equally spaced numbers from ``start`` to ``end``, inclusive.

    Args:
        start: The first value: a number or a 0-d tensor.
        end: The last value.
        steps: The number of values, at least 0.
        options: See `factory.Options`; the dtype is by default the default dtype, complex if a
            bound is.

    Raises:
        TypeError: A bound is not a number, or ``steps`` no integer.
        RuntimeError: ``steps`` is negative, or a bound has dimensions.
    """
    return _spaced("linspace", start, end, steps, None, options)


@factory
def logspace(
    start: Any, end: Any, steps: Any, base: float = 10.0, **options: Unpack[Options]
) -> Any:
    """``base`` to the powers `linspace(start, end, steps)`."""
    return _spaced("logspace", start, end, steps, base, options)


def _spaced(
    name: str, start: Any, end: Any, steps: Any, base: float | None, options: Options
) -> Any:
    for argument, bound in (("start", start), ("end", end)):
        if isinstance(bound, Tensor) and bound.ndim:
            raise RuntimeError(
                f"{name}(): {argument} must be a number or a 0-d tensor, got shape "
                f"{list(bound.shape)}"
            )
    bounds = [check_number(name, "start", start), check_number(name, "end", end)]
    start, end = (each.item() if isinstance(each, Tensor) else each for each in bounds)
    steps = as_size(name, steps)
    if steps < 0:
        raise RuntimeError(f"{name}(): steps must not be negative, got {steps}")
    new = asked(name, **options)
    dtype = new.dtype
    if dtype is None:
        dtype = dtypes.get_default_dtype()
        if isinstance(start, complex) or isinstance(end, complex):
            dtype = dtype.to_complex()
    if dtype is dtypes.bool:
        raise NotImplementedError(f"{name}(): not possible for {dtype}; convert the result instead")
    if not dtype.is_complex and (isinstance(start, complex) or isinstance(end, complex)):
        raise RuntimeError(f"{name}(): complex bounds need a complex dtype, not {dtype}")

    def build(lib: Any) -> Any:
        # From both ends, so that both are exact and the middle is symmetric.
        distance = (end - start) / max(steps - 1, 1)
        index = lib.arange(steps, dtype=np.float64)
        from_end = end - distance * (steps - 1 - index)
        use_start = (index < steps // 2) | (steps == 1)
        values = lib.where(use_start, start + distance * index, from_end)
        if base is not None:
            values = lib.power(np.float64(base), values)
        return values.astype(dtype.numpy)

    return new.tensor(produce((steps,), dtype, new.device, build))


@asks
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None,
    layout: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """The indices of the lower triangle of a ``(row, col)`` matrix, row by row.

    Args:
        row: The number of rows.
        col: The number of columns.
        offset: The last diagonal of the triangle: 0 for the main one, 1 for the one above.

    Returns:
        A tensor of shape ``(2, n)``: the rows and the columns of the n elements.
    """
    return _triangle("tril_indices", np.tril_indices, row, col, offset, dtype, device, layout)


@asks
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None,
    layout: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """The indices of the upper triangle of a ``(row, col)`` matrix; see `tril_indices`."""
    return _triangle("triu_indices", np.triu_indices, row, col, offset, dtype, device, layout)


def _triangle(
    name: str, indices: Any, row: Any, col: Any, offset: Any, dtype: Any, device: Any, layout: Any
) -> Any:
    row, col = shape_of(name, (row, col))
    dtype = checked_dtype(name, dtype, layout)
    if dtype not in (dtypes.int64, dtypes.int32):
        raise NotImplementedError(f"{name}(): indices are int64 or int32, not {dtype}")
    positions = np.stack(indices(row, offset, col)).astype(dtype.numpy)
    array = produce(positions.shape, dtype, as_device(device), lambda lib: lib.asarray(positions))
    return wrap_new(name, array)
