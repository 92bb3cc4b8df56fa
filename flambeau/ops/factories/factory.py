"""The base of all factories: sizes, dtypes and devices, and the creation of arrays."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.devices import exhaustion
from flambeau.core.devices.device import as_device, device
from flambeau.core.operators.overrides import asks
from flambeau.core.operators.writing import put_out
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.dtype import BOOLEAN, COMPLEX, FLOATING
from flambeau.core.support.modes import modes
from flambeau.core.values.attributes import handle_on
from flambeau.core.values.cell import Cell
from flambeau.core.values.plan import planned
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.upload import upload
from flambeau.ops.common.dims import is_open

__all__: list[str] = []

F = TypeVar("F", bound=Callable[..., Any])


class Options(TypedDict, total=False):
    """The keyword arguments that all factories of new tensors share.

    Attributes:
        out: A tensor to store the result in.
        dtype: The element type.
        layout: Only the dense layout is supported.
        device: The device of the tensor; by default `get_default_device`.
        pin_memory: Accepted for compatibility; JAX decides how it moves memory.
        requires_grad: Whether `backward` accumulates gradients for the tensor.
    """

    out: Any
    dtype: Any
    layout: Any
    device: Any
    pin_memory: bool
    requires_grad: bool


_FLAGS = {"pin_memory": False, "requires_grad": False}
_SHARED_PARAMETERS = [
    inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=False if name in _FLAGS else None
    )
    for name in Options.__annotations__
]


def factory(function: F) -> F:
    """Declare a factory with ``**options: Unpack[Options]``, shown as keyword arguments."""
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.name != "options"]
    shown = signature.replace(parameters=[*own, *_SHARED_PARAMETERS])
    function.__signature__ = shown
    return asks(function)


class New(NamedTuple):
    """The checked `Options` of a call to a factory."""

    name: str
    dtype: Any
    device: Any
    requires_grad: bool
    out: Any

    def default_dtype(self) -> dtypes.dtype:
        """The dtype, or the default one if none was given."""
        return dtypes.get_default_dtype() if self.dtype is None else self.dtype

    def tensor(self, array: Any) -> Any:
        """The new tensor, or ``out`` with the elements of ``array``."""
        return wrap_new(self.name, array, self.requires_grad, self.out)


def asked(
    name: str, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, **unknown: Any,
) -> New:  # fmt: skip
    """The `Options` of a call of the factory ``name``.

    Raises:
        TypeError: There is another keyword argument, or ``dtype`` is not a dtype.
        NotImplementedError: ``layout`` is not the dense one.
        RuntimeError: ``dtype`` does not match ``out``.
    """
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(unknown))}'")
    if dtype is not None or layout is not None:
        dtype = checked_dtype(name, dtype, layout)
    if out is not None:
        dtype, device = out_options(name, out, dtype, device)
    return New(name, dtype, as_device(device), requires_grad, out)


def shape_of(name: str, sizes: tuple[Any, ...], size: Any = None) -> tuple[int, ...]:
    """The shape that a factory was given as ``f(2, 3)``, ``f((2, 3))`` or ``f(size=(2, 3))``.

    Raises:
        TypeError: No size was given, or it contains a value that is not an integer.
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
            sizes = tuple([as_size(name, one) for one in sizes])
            break
    for each in sizes:
        if each < 0:
            raise RuntimeError(f"{name}(): sizes must not be negative, got {list(sizes)}")
    return sizes


def as_size(name: str, value: Any) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            if is_open(value):
                return value
    raise TypeError(f"{name}(): sizes must be integers, got {type(value).__name__}: {value!r:.80}")


def checked_dtype(name: str, dtype: Any, layout: Any = None) -> Any:
    """The dtype for ``dtype``, which may also be ``float``, ``int``, ``bool`` or ``complex``.

    Raises:
        TypeError: ``dtype`` is not a dtype.
        NotImplementedError: ``layout`` is not the dense one.
    """
    dtype = dtypes.of_python_type(dtype)
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        raise TypeError(f"{name}(): dtype must be a flambeau dtype, got {dtype!r}")
    if layout is not None and not str(layout).endswith("strided"):
        raise NotImplementedError(f"{name}(): tensors are dense; layout={layout} is not possible")
    return dtype


def produce(
    shape: tuple[int, ...], dtype: dtypes.dtype, where: device, build: Callable[[Any], Any]
) -> Any:
    """A new array on a device: from NumPy on the CPU, from JAX elsewhere and in compiled programs.

    Args:
        shape: The shape of the result; on the meta device nothing else is created.
        dtype: The dtype of the result.
        where: The device.
        build: Creates the array with the module that it is given, `numpy` or `jax.numpy`.

    Raises:
        OutOfMemoryError: There is no memory for the array.
        RuntimeError: The array would have more bytes than an address can count.
    """
    if where.type == "meta":
        return planned(shape, dtype.numpy, lambda where: produce(shape, dtype, where, build))
    target = where.jax_device
    if modes.trace is not None or any(map(is_open, shape)):
        return build(jnp)
    if where.type == "cpu":
        try:
            return upload(build(np), target)
        except (*exhaustion.FAILURES, ValueError) as error:
            exhaustion.require_addressable(shape, dtype.itemsize)
            raise exhaustion.named(error) from None
    try:
        with jax.default_device(target):
            return jax.device_put(build(jnp), target)
    except exhaustion.FAILURES as error:
        raise exhaustion.named(error) from None


def wrap_new(name: str, array: Any, requires_grad: bool = False, out: Any = None) -> Any:
    """A new tensor, perhaps a leaf that requires grad; or the result stored in ``out``.

    Raises:
        RuntimeError: ``requires_grad`` is set for a dtype without gradients.
    """
    result = handle_on(Cell(array), Tensor)
    if out is not None:
        return put_out(out, result, name)
    if modes.inference:
        result._inference = True
    if requires_grad:
        if result.dtype.category < FLOATING:
            raise RuntimeError(
                f"{name}(): only tensors of floating point and complex dtype can require "
                f"gradients, this one is {result.dtype}"
            )
        # The setter would invalidate every compiled program.
        result._requires_grad = True
    return result


def out_options(name: str, out: Any, dtype: Any, where: Any) -> tuple[Any, Any]:
    """The dtype and device of a result that is stored in ``out``."""
    if out is None:
        return dtype, where
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): out must be a Tensor, got {type(out).__name__}")
    if dtype is not None and dtype is not out.dtype:
        raise RuntimeError(f"{name}(): dtype={dtype} does not match out, which is {out.dtype}")
    return out.dtype, out.device


def dtype_of_number(value: Any) -> dtypes.dtype:
    """The dtype that a factory infers from one number, or from a 0-d tensor."""
    if isinstance(value, Tensor):
        category = value.dtype.category
        if category in (FLOATING, COMPLEX):
            return value.dtype
        return dtypes.bool if category == BOOLEAN else dtypes.int64
    if isinstance(value, bool | np.bool_):
        return dtypes.bool
    if isinstance(value, int | np.integer) or is_open(value):
        return dtypes.int64
    default = dtypes.get_default_dtype()
    return default.to_complex() if isinstance(value, complex) else default


def check_number(name: str, argument: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bool | int | float | complex) or is_open(value):
        return value
    if isinstance(value, Tensor):
        if value.ndim:
            raise TypeError(
                f"{name}(): {argument} must be a number or a 0-d tensor, got shape "
                f"{list(value.shape)}"
            )
        return value
    raise TypeError(f"{name}(): {argument} must be a number, got {type(value).__name__}")


def constant(shape: tuple[int, ...], value: Any, dtype: dtypes.dtype, where: device) -> Any:
    """An array whose elements all are ``value``, a number that the dtype holds."""
    if value == 0 and not _is_negative_zero(value):
        return produce(shape, dtype, where, lambda lib: lib.zeros(shape, dtype.numpy))
    return produce(shape, dtype, where, lambda lib: lib.full(shape, value, dtype.numpy))


def _is_negative_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1.0, value) < 0


def unfilled(shape: tuple[int, ...], dtype: dtypes.dtype, where: device) -> Any:
    """An array that is about to be replaced. Equal small ones are shared.

    Zeros and ones are not shared, since they are kept: a compiled program would have to copy them
    before overwriting them.
    """
    is_known = modes.trace is None and not any(map(is_open, shape))
    if where.type == "cpu" and is_known and math.prod(shape) <= _SHARED_SIZE:
        return _shared(shape, dtype, where)
    return constant(shape, 0, dtype, where)


_SHARED_SIZE = 1024


@functools.lru_cache(maxsize=1024)
def _shared(shape: tuple[int, ...], dtype: dtypes.dtype, where: device) -> Any:
    return constant(shape, 0, dtype, where)
