"""Tensors of a given size: zeros, ones and other constants; and filling in place."""

from __future__ import annotations

from typing import Any, Unpack

import jax.numpy as jnp

from flambeau.core.devices.device import META, as_device, device
from flambeau.core.kernels.kinds import Array, Number
from flambeau.core.kernels.single_precision import spread
from flambeau.core.operators.op import function, op
from flambeau.core.operators.writing import put
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.modes import modes
from flambeau.core.values import plan
from flambeau.core.values.convert import number_in
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.dims import is_open
from flambeau.ops.common.known import is_traced
from flambeau.ops.factories.factory import (
    Options,
    asked,
    check_number,
    checked_dtype,
    constant,
    dtype_of_number,
    factory,
    produce,
    shape_of,
    unfilled,
    wrap_new,
)

__all__ = [
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


# Constants


@factory
def zeros(*sizes: Any, size: Any = None, **options: Unpack[Options]) -> Any:
    """A tensor of zeros.

    Args:
        sizes: The shape, as integers or as one sequence of them; ``size=`` works too.
        options: See `Options`; the dtype is by default `get_default_dtype`.

    Raises:
        TypeError: A size is not an integer.
        RuntimeError: A size is negative; the dtype does not fit ``out`` or ``requires_grad``.

    >>> import flambeau
    >>> flambeau.zeros(2, 3).shape
    flambeau.Size([2, 3])
    """
    return _sized("zeros", 0, sizes, size, **options)


@factory
def ones(*sizes: Any, size: Any = None, **options: Unpack[Options]) -> Any:
    """A tensor of ones; arguments as for `zeros`."""
    return _sized("ones", 1, sizes, size, **options)


@factory
def empty(
    *sizes: Any, size: Any = None, memory_format: Any = None, **options: Unpack[Options]
) -> Any:
    """A tensor with arbitrary elements, here zeros. Arguments as for `zeros`."""
    return _sized("empty", None, sizes, size, **options)


def _sized(
    name: str, value: int | None, sizes: Any, size: Any, *, out: Any = None, dtype: Any = None,
    device: Any = None, requires_grad: bool = False, **options: Any,
) -> Any:  # fmt: skip
    # Layers are made of these tensors, so the usual options take a fast path.
    shape = shape_of(name, sizes, size)
    if options or out is not None:
        new = asked(name, out=out, dtype=dtype, device=device, **options)
        dtype, where = new.dtype, new.device
    else:
        dtype = None if dtype is None else checked_dtype(name, dtype)
        where = as_device(device)
    dtype = dtypes.get_default_dtype() if dtype is None else dtype
    if value is None:
        array = unfilled(shape, dtype, where)
    else:
        array = constant(shape, value, dtype, where)
    return wrap_new(name, array, requires_grad, out)


@factory
def full(size: Any, fill_value: Any, **options: Unpack[Options]) -> Any:
    """A tensor whose elements all are ``fill_value``.

    Args:
        size: The shape, a sequence of integers.
        fill_value: A number or a 0-d tensor.
        options: See `Options`; the dtype is by default that of ``fill_value``: bool, int64, or the
            default dtype, complex or not.

    Raises:
        TypeError: ``size`` is not a sequence, or ``fill_value`` no number.
        RuntimeError: The dtype cannot hold ``fill_value``.
    """
    if not isinstance(size, list | tuple):
        raise TypeError(f"full(): size must be a sequence of integers, got {type(size).__name__}")
    shape = shape_of("full", (size,))
    new = asked("full", **options)
    value = check_number("full", "fill_value", fill_value)
    dtype = dtype_of_number(value) if new.dtype is None else new.dtype
    return new.tensor(_filled_with("full", shape, value, dtype, new.device))


def _filled_with(
    name: str, shape: tuple[int, ...], value: Any, dtype: dtypes.dtype, where: device
) -> Any:
    """An array of equal elements: ``value``, a number, a 0-d tensor or an open size."""
    if is_open(value):
        return jnp.full(shape, jnp.asarray(value), dtype.numpy)
    if isinstance(value, Tensor):
        if where.type != "meta" and is_traced(value):
            # Only the trace knows the number; the program fills in the actual one.
            return jnp.full(shape, value.detach().to(dtype)._read(), dtype.numpy)
        value = 0 if where.type == "meta" else value.item()
    return constant(shape, number_in(value, dtype, name), dtype, where)


@factory
def eye(n: Any, m: Any = None, **options: Unpack[Options]) -> Any:
    """A matrix with ones on the diagonal and zeros elsewhere, of shape ``(n, m)`` or ``(n, n)``."""
    shape = shape_of("eye", (n, n if m is None else m))
    new = asked("eye", **options)
    dtype = new.default_dtype()
    return new.tensor(
        produce(shape, dtype, new.device, lambda lib: lib.eye(*shape, dtype=dtype.numpy))
    )


# Like another tensor


@function
def zeros_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A tensor of zeros with the shape, dtype and device of ``input``, unless given."""
    return _like("zeros_like", input, 0, dtype, layout, device, requires_grad)


@function
def ones_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A tensor of ones with the shape, dtype and device of ``input``, unless given."""
    return _like("ones_like", input, 1, dtype, layout, device, requires_grad)


@function
def empty_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A tensor like ``input`` with arbitrary elements, here zeros."""
    return _like("empty_like", input, 0, dtype, layout, device, requires_grad)


@function
def full_like(
    input: Any, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A tensor like ``input`` whose elements all are ``fill_value``."""
    value = check_number("full_like", "fill_value", fill_value)
    return _like("full_like", input, value, dtype, layout, device, requires_grad)


def _like(
    name: str, input: Any, value: Any, dtype: Any, layout: Any, device: Any, requires_grad: bool
) -> Any:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): input must be a Tensor, got {type(input).__name__}")
    dtype = checked_dtype(name, dtype, layout)
    return _new(name, input, tuple(input.shape), value, dtype, device, requires_grad)


def _new(
    name: str, origin: Tensor, shape: tuple[int, ...], value: Any, dtype: Any, device: Any,
    requires_grad: bool,
) -> Any:  # fmt: skip
    dtype = origin.dtype if dtype is None else dtype
    where = origin.device if device is None else as_device(device)
    return wrap_new(name, _filled_with(name, shape, value, dtype, where), requires_grad)


def _make_new(method_name: str, value: int, subject: str) -> None:
    def new(
        self: Tensor, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None,
        requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
    ) -> Any:  # fmt: skip
        shape = shape_of(method_name, sizes, size)
        dtype = checked_dtype(method_name, dtype, layout)
        return _new(method_name, self, shape, value, dtype, device, requires_grad)

    new.__name__ = new.__qualname__ = method_name
    new.__doc__ = f"A tensor of {subject} of the given size, with this tensor's dtype and device."
    function(method=True)(new)


_make_new("new_zeros", 0, "zeros")
_make_new("new_ones", 1, "ones")
_make_new("new_empty", 0, "zeros, on which no code may rely,")


@function(method=True)
def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A tensor of a size filled with ``fill_value``, with this tensor's dtype and device."""
    if not isinstance(size, list | tuple):
        raise TypeError(f"new_full(): size must be a tuple of ints, got {size!r:.80}")
    shape = shape_of("new_full", (size,))
    dtype = checked_dtype("new_full", dtype, layout)
    value = check_number("new_full", "fill_value", fill_value)
    return _new("new_full", self, shape, value, dtype, device, requires_grad)


# Filling in place


@op(node="FillBackward0", name="fill", linear=True)
def _filled(input: Array, value: Array | Number) -> Array:
    return spread(jnp.asarray(value).astype(input.dtype), input.shape)


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
    return _fill("fill_", self, check_number("fill_", "value", value))


@function(method=True)
def zero_(self: Tensor) -> Any:
    """Overwrite every element with zero."""
    return _fill("zero_", self, 0)


def _fill(name: str, target: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor) and (
        modes.dual is not None or (value.requires_grad and modes.grad_enabled)
    ):
        return put(target, _filled(target, value), name)
    if plan.is_to_be_followed(target._cell.array):
        with META.clone():
            return _fill(name, target, value)
    array = _filled_with(name, tuple(target.shape), value, target.dtype, target.device)
    if modes.grad_enabled or target._inference or modes.dual is not None:
        return put(target, Tensor._wrap(array), name)
    target._store(array)
    return target
