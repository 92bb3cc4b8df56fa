"""Tensors made from a size: constants, ranges, identities; and filling in place."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core import dtype as dtypes
from flambeau.core.cell import Cell, abstract
from flambeau.core.device import as_device, device, jax_device
from flambeau.core.dtype import COMPLEX, FLOATING, INTEGER
from flambeau.core.modes import modes
from flambeau.core.op import Array, function, op
from flambeau.core.tensor import Tensor
from flambeau.core.upload import upload
from flambeau.core.writing import put, put_out

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]


# What all factories share


def shape_of(name: str, sizes: tuple[Any, ...], size: Any = None) -> tuple[int, ...]:
    """The shape that a factory was given as ``f(2, 3)``, ``f((2, 3))`` or ``f(size=(2, 3))``.

    Raises:
        TypeError: No size was given, or something in it is not an integer.
        RuntimeError: A size is negative.
    """
    if size is not None:
        if sizes:
            raise TypeError(f"{name}() got its size twice: {sizes} and size={size}")
        sizes = (size,)
    if not sizes:
        raise TypeError(f"{name}() needs a size, such as {name}(2, 3) or {name}(()) for a scalar")
    if len(sizes) == 1 and isinstance(sizes[0], list | tuple):
        sizes = tuple(sizes[0])
    for each in sizes:
        if type(each) is not int:
            sizes = tuple([_as_size(name, one) for one in sizes])
            break
    for each in sizes:
        if each < 0:
            raise RuntimeError(f"{name}(): sizes must not be negative, got {list(sizes)}")
    return sizes


def _as_size(name: str, value: Any) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name}(): sizes must be integers, got {type(value).__name__}: {value!r:.80}")


def check_options(name: str, dtype: Any, layout: Any = None) -> None:
    """Refuse a dtype that is none, and layouts other than the dense one."""
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"{name}(): dtype must be a flambeau dtype, got {dtype!r}")
    if layout is not None and not str(layout).endswith("strided"):
        raise NotImplementedError(f"{name}(): tensors are dense; layout={layout} is not possible")


def produce(
    shape: tuple[int, ...], dtype: dtypes.dtype, where: device, build: Callable[[Any], Any]
) -> Any:
    """A new array on a device: by NumPy on the CPU, by JAX elsewhere and in a compiled program.

    Args:
        shape: Of the result; on the meta device nothing else is made.
        dtype: Of the result.
        where: The device.
        build: Makes the array with the module it is given, `numpy` or `jax.numpy`.
    """
    if where.type == "meta":
        return abstract(shape, dtype.numpy)
    if modes.trace is not None:
        return build(jnp)
    if where.type == "cpu":
        return upload(build(np), jax_device(where))
    target = jax_device(where)
    with jax.default_device(target):
        return jax.device_put(build(jnp), target)


def wrap_new(name: str, array: Any, requires_grad: bool = False, out: Any = None) -> Any:
    """A new tensor, perhaps a leaf that takes gradients; or the result stored in ``out``.

    Raises:
        RuntimeError: ``requires_grad`` for a dtype that cannot.
    """
    made = object.__new__(Tensor)
    made._cell = Cell(array)
    if out is not None:
        return put_out(out, made, name)
    if modes.inference:
        made._inference = True
    if requires_grad:
        if made.dtype.category < FLOATING:
            raise RuntimeError(
                f"{name}(): only tensors of floating point and complex dtype can require "
                f"gradients, this one is {made.dtype}"
            )
        # The setter would tell every compiled program that the world has changed.
        made._requires_grad = True
    return made


def out_options(name: str, out: Any, dtype: Any, where: Any) -> tuple[Any, Any]:
    """The dtype and device of a result that goes to ``out``."""
    if out is None:
        return dtype, where
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): out must be a Tensor, got {type(out).__name__}")
    if dtype is not None and dtype is not out.dtype:
        raise RuntimeError(f"{name}(): dtype={dtype} does not match out, which is {out.dtype}")
    return out.dtype, out.device


def number_in(value: Any, dtype: dtypes.dtype, name: str) -> Any:
    """A Python number as one that ``dtype`` holds.

    Fractions are cut off for integer dtypes, and small negative numbers wrap around for unsigned
    ones, as in PyTorch.

    Raises:
        RuntimeError: The dtype cannot hold it.
    """
    category = dtype.category
    if category == COMPLEX or (type(value) is int and category == FLOATING and -256 < value < 256):
        return value
    real = value.real if isinstance(value, complex) and value.imag == 0 else value
    fits = not isinstance(real, complex)
    if fits and category == dtypes.BOOLEAN:
        return real != 0
    if fits and category == FLOATING:
        fits = not math.isfinite(real) or abs(real) <= _LARGEST[dtype]
    elif fits:
        fits = math.isfinite(real)
        if fits:
            real = int(real)
            limits = np.iinfo(dtype.numpy)
            lowest = limits.min if dtype.is_signed else -limits.max
            fits = lowest <= real <= limits.max
            real = real % (limits.max + 1) if real < 0 and not dtype.is_signed else real
    if not fits:
        raise RuntimeError(f"{name}(): {value} cannot be converted to {dtype} without overflow")
    return real


_LARGEST = {
    each: float(dtypes.finfo(each).max) for each in dtypes.ALL_DTYPES if each.is_floating_point
}


def _dtype_of_number(value: Any) -> dtypes.dtype:
    """The dtype that a factory infers from one number, or from a 0-d tensor."""
    if isinstance(value, Tensor):
        category = value.dtype.category
        if category in (FLOATING, COMPLEX):
            return value.dtype
        return dtypes.bool if category == dtypes.BOOLEAN else dtypes.int64
    if isinstance(value, bool | np.bool_):
        return dtypes.bool
    if isinstance(value, int | np.integer):
        return dtypes.int64
    default = dtypes.get_default_dtype()
    return default.to_complex() if isinstance(value, complex) else default


def _check_number(name: str, argument: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, Tensor):
        if value.ndim:
            raise TypeError(
                f"{name}(): {argument} must be a number or a 0-d tensor, got shape "
                f"{list(value.shape)}"
            )
        return value
    raise TypeError(f"{name}(): {argument} must be a number, got {type(value).__name__}")


def _constant(shape: tuple[int, ...], value: Any, dtype: dtypes.dtype, where: device) -> Any:
    """An array whose elements all are ``value``, a number that the dtype holds."""
    if value == 0:
        return produce(shape, dtype, where, lambda lib: lib.zeros(shape, dtype.numpy))
    return produce(shape, dtype, where, lambda lib: lib.full(shape, value, dtype.numpy))


# Constants


def zeros(
    *sizes: Any,
    size: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A tensor of zeros.

    Args:
        sizes: The shape, as integers or as one sequence of them; ``size=`` works too.
        out: A tensor to store the result in.
        dtype: The element type; by default `get_default_dtype`.
        layout: Dense tensors are the only ones.
        device: Where to put it; by default `get_default_device`.
        pin_memory: Accepted for PyTorch's sake; JAX decides how it moves memory.
        requires_grad: Whether `backward` shall accumulate gradients for it.

    Raises:
        TypeError: A size is not an integer.
        RuntimeError: A size is negative; the dtype does not fit ``out`` or ``requires_grad``.

    >>> import flambeau
    >>> flambeau.zeros(2, 3).shape
    flambeau.Size([2, 3])
    """
    return _sized("zeros", 0, sizes, size, out, dtype, layout, device, requires_grad)


def ones(
    *sizes: Any,
    size: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A tensor of ones; arguments as for `zeros`."""
    return _sized("ones", 1, sizes, size, out, dtype, layout, device, requires_grad)


def empty(
    *sizes: Any,
    size: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor whose elements nobody relies on: here they are zeros. Arguments as for `zeros`."""
    return _sized("empty", 0, sizes, size, out, dtype, layout, device, requires_grad)


def _sized(
    name: str, value: int, sizes: Any, size: Any, out: Any, dtype: Any, layout: Any, device: Any,
    requires_grad: bool,
) -> Any:  # fmt: skip
    shape = shape_of(name, sizes, size)
    if dtype is not None or layout is not None:
        check_options(name, dtype, layout)
    if out is not None:
        dtype, device = out_options(name, out, dtype, device)
    dtype = dtypes.get_default_dtype() if dtype is None else dtype
    return wrap_new(name, _constant(shape, value, dtype, as_device(device)), requires_grad, out)


def full(
    size: Any,
    fill_value: Any,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A tensor whose elements all are ``fill_value``.

    Args:
        size: The shape, a sequence of integers.
        fill_value: A number or a 0-d tensor.
        out: See `zeros`, as all further arguments.
        dtype: By default that of ``fill_value``: bool, int64, or the default dtype, complex or not.

    Raises:
        TypeError: ``size`` is no sequence, or ``fill_value`` no number.
        RuntimeError: The dtype cannot hold ``fill_value``.
    """
    if not isinstance(size, list | tuple):
        raise TypeError(f"full(): size must be a sequence of integers, got {type(size).__name__}")
    shape = shape_of("full", (size,))
    check_options("full", dtype, layout)
    value = _check_number("full", "fill_value", fill_value)
    dtype, device = out_options("full", out, dtype, device)
    dtype = _dtype_of_number(value) if dtype is None else dtype
    array = _filled_with("full", shape, value, dtype, as_device(device))
    return wrap_new("full", array, requires_grad, out)


def _filled_with(
    name: str, shape: tuple[int, ...], value: Any, dtype: dtypes.dtype, where: device
) -> Any:
    """An array of equal elements, ``value`` being a Python number or a 0-d tensor."""
    if isinstance(value, Tensor):
        if modes.trace is not None and where.type != "meta":
            # Only the trace knows the number; the program will fill in the actual one.
            return jnp.full(shape, value.detach().to(dtype)._read(), dtype.numpy)
        value = 0 if where.type == "meta" else value.item()
    return _constant(shape, number_in(value, dtype, name), dtype, where)


def eye(
    n: Any,
    m: Any = None,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A matrix with ones on the diagonal and zeros elsewhere, of shape ``(n, m)`` or ``(n, n)``."""
    shape = shape_of("eye", (n, n if m is None else m))
    check_options("eye", dtype, layout)
    dtype, device = out_options("eye", out, dtype, device)
    dtype = dtypes.get_default_dtype() if dtype is None else dtype
    array = produce(
        shape, dtype, as_device(device), lambda lib: lib.eye(*shape, dtype=dtype.numpy)
    )
    return wrap_new("eye", array, requires_grad, out)


# Ranges


def arange(
    *bounds: Any,
    start: Any = None,
    end: Any = None,
    step: Any = None,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """The numbers ``start, start + step, ...`` below ``end``, as a 1-d tensor.

    Args:
        bounds: ``end``; or ``start, end``; or ``start, end, step``. Each can be given by name.
        out: See `zeros`, as all further arguments.
        dtype: By default int64, or the default dtype if a bound or the step is a float.

    Raises:
        TypeError: No ``end`` was given, or something is no number.
        RuntimeError: The step is zero or leads away from ``end``; a bound is not finite.
    """
    start, end, step = _range_bounds(bounds, start, end, step)
    check_options("arange", dtype, layout)
    dtype, device = out_options("arange", out, dtype, device)
    if dtype is None:
        all_integers = all(isinstance(each, int) for each in (start, end, step))
        dtype = dtypes.int64 if all_integers else dtypes.get_default_dtype()
    if dtype.category not in (INTEGER, FLOATING):
        raise NotImplementedError(f"arange(): not possible for {dtype}; convert the result instead")
    if dtype.category == INTEGER:
        length = _range_length(int(start), int(end), int(step)) if dtype is dtypes.int64 else (
            _range_length(start, end, step)
        )  # fmt: skip
        start, step = int(start), int(step)
        work: Any = np.int64
    else:
        length = _range_length(start, end, step)
        start, step, work = float(start), float(step), np.float64

    def build(lib: Any) -> Any:
        return (start + step * lib.arange(length, dtype=work)).astype(dtype.numpy)

    array = produce((length,), dtype, as_device(device), build)
    return wrap_new("arange", array, requires_grad, out)


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
        value = _check_number("arange", name, values[i])
        values[i] = value.item() if isinstance(value, Tensor) else value
    return values


def _range_length(start: Any, end: Any, step: Any) -> int:
    if step == 0:
        raise RuntimeError("arange(): step must not be zero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"arange(): the range from {start} to {end} is not finite")
    if (end - start) * step < 0:
        raise RuntimeError(f"arange(): a step of {step} does not lead from {start} to {end}")
    if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
        return -((start - end) // step)
    return math.ceil((float(end) - float(start)) / float(step))


def linspace(
    start: Any,
    end: Any,
    steps: Any,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """``steps`` numbers at equal distances from ``start`` to ``end``, both included.

    Args:
        start: The first: a number or a 0-d tensor.
        end: The last.
        steps: How many, at least 0.
        out: See `zeros`, as all further arguments.
        dtype: By default the default dtype, complex if a bound is.

    Raises:
        TypeError: A bound is no number, or ``steps`` no integer.
        RuntimeError: ``steps`` is negative.
    """
    return _spaced("linspace", start, end, steps, None, out, dtype, layout, device, requires_grad)


def logspace(
    start: Any,
    end: Any,
    steps: Any,
    base: float = 10.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """``base`` to the powers `linspace(start, end, steps)`."""
    return _spaced("logspace", start, end, steps, base, out, dtype, layout, device, requires_grad)


def _spaced(
    name: str, start: Any, end: Any, steps: Any, base: float | None, out: Any, dtype: Any,
    layout: Any, device: Any, requires_grad: bool,
) -> Any:  # fmt: skip
    bounds = [_check_number(name, "start", start), _check_number(name, "end", end)]
    start, end = (each.item() if isinstance(each, Tensor) else each for each in bounds)
    steps = _as_size(name, steps)
    if steps < 0:
        raise RuntimeError(f"{name}(): steps must not be negative, got {steps}")
    check_options(name, dtype, layout)
    dtype, device = out_options(name, out, dtype, device)
    if dtype is None:
        dtype = dtypes.get_default_dtype()
        if isinstance(start, complex) or isinstance(end, complex):
            dtype = dtype.to_complex()
    if dtype is dtypes.bool:
        raise NotImplementedError(f"{name}(): not possible for {dtype}; convert the result instead")
    if not dtype.is_complex and (isinstance(start, complex) or isinstance(end, complex)):
        raise RuntimeError(f"{name}(): complex bounds need a complex dtype, not {dtype}")

    def build(lib: Any) -> Any:
        # From both ends, so that both are met exactly and the middle is symmetric.
        distance = (end - start) / max(steps - 1, 1)
        index = lib.arange(steps, dtype=np.float64)
        from_end = end - distance * (steps - 1 - index)
        use_start = (index < steps // 2) | (steps == 1)
        values = lib.where(use_start, start + distance * index, from_end)
        if base is not None:
            values = lib.power(np.float64(base), values)
        return values.astype(dtype.numpy)

    return wrap_new(name, produce((steps,), dtype, as_device(device), build), requires_grad, out)


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None,
    layout: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """The indices of the lower triangle of a ``(row, col)`` matrix, row by row.

    Args:
        row: How many rows.
        col: How many columns.
        offset: The diagonal up to which the triangle reaches: 0 the main one, 1 the one above.

    Returns:
        A tensor of shape ``(2, n)``: the rows and the columns of the n elements.
    """
    return _triangle("tril_indices", np.tril_indices, row, col, offset, dtype, device, layout)


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
    check_options(name, dtype, layout)
    if dtype not in (dtypes.int64, dtypes.int32):
        raise NotImplementedError(f"{name}(): indices are int64 or int32, not {dtype}")
    positions = np.stack(indices(row, offset, col)).astype(dtype.numpy)
    array = produce(
        positions.shape, dtype, as_device(device), lambda lib: lib.asarray(positions)
    )
    return wrap_new(name, array)


# Like another tensor


@function
def zeros_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A tensor of zeros with the shape, dtype and device of ``input``, where not said otherwise."""
    return _like("zeros_like", input, 0, dtype, layout, device, requires_grad)


@function
def ones_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A tensor of ones with the shape, dtype and device of ``input``, where not said otherwise."""
    return _like("ones_like", input, 1, dtype, layout, device, requires_grad)


@function
def empty_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A tensor like ``input`` whose elements nobody relies on: here they are zeros."""
    return _like("empty_like", input, 0, dtype, layout, device, requires_grad)


@function
def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A tensor like ``input`` whose elements all are ``fill_value``."""
    value = _check_number("full_like", "fill_value", fill_value)
    return _like("full_like", input, value, dtype, layout, device, requires_grad)


def _like(
    name: str, input: Any, value: Any, dtype: Any, layout: Any, device: Any, requires_grad: bool
) -> Any:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): input must be a Tensor, got {type(input).__name__}")
    check_options(name, dtype, layout)
    return _new(name, input, tuple(input.shape), value, dtype, device, requires_grad)


def _new(
    name: str, origin: Tensor, shape: tuple[int, ...], value: Any, dtype: Any, device: Any,
    requires_grad: bool,
) -> Any:  # fmt: skip
    dtype = origin.dtype if dtype is None else dtype
    where = origin.device if device is None else as_device(device)
    return wrap_new(name, _filled_with(name, shape, value, dtype, where), requires_grad)


def _make_new(method_name: str, value: int, what: str) -> None:
    def new(
        self: Tensor, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None,
        requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        shape = shape_of(method_name, sizes, size)
        check_options(method_name, dtype, layout)
        return _new(method_name, self, shape, value, dtype, device, requires_grad)

    new.__name__ = new.__qualname__ = method_name
    new.__doc__ = f"A tensor of {what} of the given size, with this tensor's dtype and device."
    function(method=True)(new)


_make_new("new_zeros", 0, "zeros")
_make_new("new_ones", 1, "ones")
_make_new("new_empty", 0, "zeros, on which nobody relies,")


@function(method=True)
def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A tensor of the given size, full of ``fill_value``, with this tensor's dtype and device."""
    shape = shape_of("new_full", (size,))
    check_options("new_full", dtype, layout)
    value = _check_number("new_full", "fill_value", fill_value)
    return _new("new_full", self, shape, value, dtype, device, requires_grad)


# Filling in place


@op(node="FillBackward0", name="fill", linear=True)
def _filled(input: Array, value: Array) -> Array:
    return jnp.full(input.shape, jnp.asarray(value).astype(input.dtype), input.dtype)


@function(method=True)
def fill_(self: Tensor, value: Any) -> Any:
    """Overwrite every element with ``value``, a number or a 0-d tensor.

    Raises:
        RuntimeError: ``value`` has dimensions, or the dtype cannot hold it; the tensor is a leaf
            that requires grad while gradients are recorded.
    """
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"fill_() takes a number or a 0-d tensor, got one of shape {list(value.shape)}"
        )
    return _fill("fill_", self, _check_number("fill_", "value", value))


@function(method=True)
def zero_(self: Tensor) -> Any:
    """Overwrite every element with zero."""
    return _fill("zero_", self, 0)


def _fill(name: str, target: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor) and value.requires_grad and modes.grad_enabled:
        return put(target, _filled(target, value), name)
    array = _filled_with(name, tuple(target.shape), value, target.dtype, target.device)
    return put(target, Tensor._wrap(array), name)
