"""Copies, dtypes and devices: `clone`, `copy_`, `to` and the like."""

from __future__ import annotations

import builtins
from types import NoneType
from typing import Any

import numpy as np

from flambeau.core.devices.device import as_device, device
from flambeau.core.devices.layout import memory_format
from flambeau.core.kernels.casting import cast, warn_of_lost_part
from flambeau.core.kernels.kinds import Array
from flambeau.core.kernels.single_precision import spread
from flambeau.core.operators.op import function, op
from flambeau.core.operators.writing import put
from flambeau.core.support import dtype as dtypes
from flambeau.core.support import naming
from flambeau.core.support.modes import modes
from flambeau.core.tape import nodes as tape
from flambeau.core.values import plan
from flambeau.core.values.convert import place
from flambeau.core.values.dual import tangent_of
from flambeau.core.values.strides import is_in_order
from flambeau.core.values.tensor import Tensor, method
from flambeau.ops.factories.creation import full

__all__ = ["clone"]


@op(method=True, linear=True)
def clone(input: Array, *, memory_format: object = None) -> Array:
    """A copy with the same elements; gradients flow back to ``input``."""
    return input


@op(node="ToCopyBackward0", linear=True)
def _cast(input: Array, dtype: dtypes.dtype) -> Array:
    return cast(input, dtype.numpy)


@op(node="CopyBackwards", linear=True)
def _copied(input: Array, src: Array) -> Array:
    return spread(cast(src, input.dtype), input.shape)


class _ToDeviceBackward(tape.Node):
    """Moves the cotangent back to the device of the input."""

    __slots__ = ("origin",)

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`."""
        (cotangent,) = cotangents
        if as_tensors:
            return (cotangent.to(self.origin),)
        return (place(cotangent, self.origin),)


def _moved(source: Tensor, target: device) -> Tensor:
    if modes.trace is not None and target.type != "meta":
        result = modes.trace.moved(source, target)
        if result is not None:
            return result
    result = Tensor._wrap(place(source._read(), target))
    if source.requires_grad and modes.grad_enabled:
        node = _ToDeviceBackward((tape.edge_of(source),))
        node.origin = source.device
        result._grad_fn, result._requires_grad = node, True
    if modes.dual is not None and (tangent := tangent_of(source)) is not None:
        modes.dual.attach(result, _moved(tangent, target))
    return result


def _same_place(have: device, want: device) -> bool:
    return have.type == want.type and (want.index is None or (have.index or 0) == want.index)


# The arguments that `to` takes by name.
_TO_ARGUMENTS = {
    "device": (str, int, device, NoneType),
    "dtype": (dtypes.dtype, NoneType),
    "non_blocking": (bool,),
    "copy": (bool,),
    "memory_format": (memory_format, NoneType),
}


def parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, bool | None]:
    """The device, dtype and copy flag of a call of ``to``; ``None`` for each that is not given.

    Raises:
        TypeError: The arguments have none of the three forms.
    """
    args = tuple(map(dtypes.of_python_type, args))
    first = args[0] if args else kwargs.get("tensor", kwargs.get("other"))
    names: tuple[str, ...]
    if isinstance(first, Tensor):
        names = ("other" if "other" in kwargs else "tensor", "non_blocking", "copy")
    elif args and isinstance(first, dtypes.dtype):
        names = ("dtype", "non_blocking", "copy")
    else:
        names = ("device", "dtype", "non_blocking", "copy")
    given: dict[str, Any] = dict(zip(names, args, strict=False))
    unknown = [name for name in kwargs if name in given or name not in (*names, "memory_format")]
    if unknown or len(args) > len(names):
        surplus = ", ".join(unknown) or f"{len(args)} positional arguments"
        raise TypeError(
            f"to() got {surplus} in a call that takes ({', '.join(names)}, *, memory_format); the "
            "other forms are to(device, dtype), to(dtype) and to(other)"
        )
    given.update(kwargs)
    if "dtype" in kwargs:
        given["dtype"] = dtypes.of_python_type(kwargs["dtype"])
    for name, kinds in _TO_ARGUMENTS.items():
        if name in given and not isinstance(given[name], kinds):
            raise TypeError(
                f"to(): {name} cannot be {given[name]!r}, a {given[name].__class__.__name__}"
            )
    if isinstance(first, Tensor):
        return first.device, first.dtype, given.get("copy")
    return given.get("device"), given.get("dtype"), given.get("copy")


@function(method=True)
def to(self: Tensor, *args: Any, **kwargs: Any) -> Any:
    """This tensor with another dtype, on another device, or with those of another tensor.

    ``to(dtype)``, ``to(device, dtype)`` and ``to(other)``, each with ``non_blocking``, ``copy`` and
    ``memory_format``. Returns the tensor itself if nothing changes and ``copy`` is not set.

    Raises:
        TypeError: The arguments have none of these forms.
        RuntimeError: The device does not exist on this machine.
    """
    where, to, copy = parse_to(args, kwargs)
    result = self
    if where is not None:
        where = as_device(where)
        if not _same_place(self.device, where):
            result = _moved(result, where)
    if to is not None and to is not result.dtype:
        warn_of_lost_part(result.dtype, to)
        result = _cast(result, to)
    return clone(result) if copy and result is self else result


@method
def type(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """The tensor with another dtype; without an argument, the name of its own type.

    Args:
        dtype: A dtype, a constructor such as `flambeau.LongTensor`, or the name of one.

    Raises:
        ValueError: No constructor has that name.
        TypeError: ``dtype`` is not a supported dtype.
    """
    if dtype is None:
        return f"{naming.package}.{TYPE_NAMES[self.dtype]}"
    if hasattr(dtype, "dtype"):
        dtype = dtype.dtype
    if isinstance(dtype, str):
        by_name = {
            f"{package}.{name}": each
            for each, name in TYPE_NAMES.items()
            for package in ("flambeau", "torch")
        }
        if dtype not in by_name:
            raise ValueError(f"invalid type {dtype!r}; expected one of {', '.join(by_name)}")
        dtype = by_name[dtype]
    dtype = dtypes.of_python_type(dtype)
    if not isinstance(dtype, dtypes.dtype):
        kind = builtins.type(dtype).__name__
        raise TypeError(
            f"type(): dtype must be a dtype or a type's name, got {kind}: {dtype!r:.80}"
        )
    return self.to(dtype)


#: The dtypes by the type names of early PyTorch versions.
TYPE_NAMES = {
    dtypes.float32: "FloatTensor", dtypes.float64: "DoubleTensor", dtypes.float16: "HalfTensor",
    dtypes.bfloat16: "BFloat16Tensor", dtypes.int64: "LongTensor", dtypes.int32: "IntTensor",
    dtypes.int16: "ShortTensor", dtypes.int8: "CharTensor", dtypes.uint8: "ByteTensor",
    dtypes.bool: "BoolTensor", dtypes.complex64: "ComplexFloatTensor",
    dtypes.complex128: "ComplexDoubleTensor",
}  # fmt: skip


def _make_conversion(name: str, to_dtype: dtypes.dtype) -> None:
    def convert(self: Tensor, memory_format: Any = None) -> Any:
        return self.to(to_dtype)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"This tensor as {to_dtype.name}."
    method(convert)


for _name, _dtype in (
    ("float", dtypes.float32), ("double", dtypes.float64), ("half", dtypes.float16),
    ("bfloat16", dtypes.bfloat16), ("long", dtypes.int64), ("int", dtypes.int32),
    ("short", dtypes.int16), ("char", dtypes.int8), ("byte", dtypes.uint8), ("bool", dtypes.bool),
    ("chalf", dtypes.complex32), ("cfloat", dtypes.complex64), ("cdouble", dtypes.complex128),
):  # fmt: skip
    _make_conversion(_name, _dtype)


@method
def type_as(self: Tensor, other: Tensor) -> Any:
    """This tensor with the dtype of ``other``."""
    return self.to(other.dtype)


@method
def cpu(self: Tensor, memory_format: Any = None) -> Any:
    """This tensor in CPU memory."""
    return self.to("cpu")


@method
def cuda(
    self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> Any:
    """This tensor in GPU memory.

    Raises:
        RuntimeError: This machine has no such GPU; the message lists the available devices.
    """
    return self.to("cuda" if device is None else device)


@method
def contiguous(self: Tensor, memory_format: Any = None) -> Any:
    """This tensor; a copy if PyTorch's would not be contiguous, as after `transpose`.

    So a write to ``x.t().contiguous()`` does not change ``x``, as in PyTorch.
    """
    view = self._view
    if view is None or is_in_order(view, self._cell.array.shape, self._cell.array.dtype):
        return self
    return clone(self)


# The dtypes of numbers, by which no digits are lost.
_WIDEST = {builtins.float: dtypes.float64, builtins.complex: dtypes.complex128}
_NUMBERS = (builtins.int, builtins.float, builtins.complex, np.generic)


@function(method=True)
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Any:
    """Overwrite this tensor with the elements of ``src``, or a number, broadcast and converted.

    On the meta device, where there are no elements, a tensor with a plan records the write;
    otherwise nothing happens.

    Raises:
        TypeError: ``src`` is neither a tensor nor a number.
        RuntimeError: The shapes do not broadcast.
    """
    if isinstance(src, _NUMBERS):
        src = full((), src, dtype=_WIDEST.get(builtins.type(src)), device=self.device)
    if not isinstance(src, Tensor):
        raise TypeError(f"copy_() takes a Tensor, got {src.__class__.__name__}")
    if src.shape != self.shape and not _broadcasts(tuple(src.shape), tuple(self.shape)):
        raise RuntimeError(
            f"copy_(): a source of shape {list(src.shape)} does not broadcast to {list(self.shape)}"
        )
    recorded = modes.grad_enabled and (self._history_base().requires_grad or src.requires_grad)
    if not self.is_meta and src.is_meta:
        raise NotImplementedError("copy_(): the source is on the meta device and has no elements")
    if src.device != self.device:
        with plan.following(self._cell.array):
            src = _moved(src, self.device)
    if not (recorded or modes.dual) and src.shape == self.shape and src.dtype is self.dtype:
        self._store(src._read())
        return self
    warn_of_lost_part(src.dtype, self.dtype)
    return put(self, _copied(self, src), "copy_")


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    if len(shape) > len(to):
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))
