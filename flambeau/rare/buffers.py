"""Tensors from raw memory, and Python functions on the elements of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.core.operators.op import function
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.modes import modes
from flambeau.core.values.convert import make
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.known import known_values
from flambeau.ops.factories.factory import checked_dtype

__all__ = ["apply_", "frombuffer", "map_"]


def frombuffer(
    buffer: Any,
    *,
    dtype: dtypes.dtype,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:
    """A 1-d CPU tensor of the bytes of an object with Python's buffer protocol.

    Unlike PyTorch, the elements are copied: later writes to one do not change the other.

    Args:
        buffer: Such as `bytes`, a `bytearray`, an `array` or a memory map.
        dtype: The dtype of the elements.
        count: The number of elements; by default all.
        offset: The number of bytes to skip at the beginning.
        requires_grad: Whether `backward` accumulates gradients for it.

    Raises:
        ValueError: ``buffer`` does not support the protocol, or is empty or too small.

    >>> import flambeau
    >>> flambeau.frombuffer(bytes([1, 2, 3]), dtype=flambeau.uint8)
    tensor([1, 2, 3], dtype=flambeau.uint8)
    """
    dtype = checked_dtype("frombuffer", dtype)
    try:
        memory = memoryview(buffer).cast("B")
    except TypeError:
        raise ValueError(
            f"frombuffer(): {type(buffer).__name__} is not a buffer of bytes"
        ) from None
    size, length = dtype.itemsize, memory.nbytes
    if not length or not count:
        raise ValueError(f"frombuffer(): no elements: {length} bytes and count={count}")
    if not 0 <= offset < length:
        raise ValueError(f"frombuffer(): offset={offset} is not inside the {length} bytes")
    if count < 0 and (length - offset) % size:
        raise ValueError(
            f"frombuffer(): {length - offset} bytes are not a whole number of {dtype.name} "
            f"elements of {size} bytes"
        )
    count = (length - offset) // size if count < 0 else count
    if offset + count * size > length:
        raise ValueError(
            f"frombuffer(): {count} elements of {size} bytes from byte {offset} on need more than "
            f"the {length} bytes"
        )
    result = make(np.frombuffer(memory, dtype.numpy, count, offset), "cpu")
    return result.requires_grad_(True) if requires_grad else result


@function(method=True)
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replace each element by the result of a Python function; slow, and only on the CPU.

    Raises:
        RuntimeError: The tensor requires grad.
        TypeError: The tensor is on another device.
        TracedValueError: In a compiled program, where the elements are unknown.
    """
    return _replaced("apply_", self, (), callable)


@function(method=True)
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replace each element by the result of a Python function of it and of another tensor's.

    Args:
        tensor: A tensor that broadcasts to the shape of this tensor.
        callable: A function of two numbers.

    Raises:
        RuntimeError: One of the tensors requires grad.
        TypeError: The tensor is on another device.
        TracedValueError: In a compiled program.
    """
    return _replaced("map_", self, (tensor,), callable)


@function(method=True)
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """`Tensor.map_` with two other tensors."""
    return _replaced("map2_", self, (x, y), callable)


def _replaced(
    name: str, target: Tensor, others: tuple[Tensor, ...], callable: Callable[..., Any]
) -> Tensor:
    if any(each.requires_grad for each in (target, *others)):
        raise RuntimeError(f"{name}(): tensors that require grad are not followed; detach() first")
    if target.device.type != "cpu":
        raise TypeError(f"{name}() works on the CPU only, the tensor is on {target.device}")
    values = [known_values(name, each) for each in (target, *others)]
    values = [np.broadcast_to(each, values[0].shape) for each in values]
    found = [
        callable(*row) for row in zip(*(each.ravel().tolist() for each in values), strict=True)
    ]
    array = np.array(found, values[0].dtype).reshape(values[0].shape)
    if modes.inference or not target._inference:
        target._store(make(array, "cpu")._read())
        return target
    raise RuntimeError(f"{name}(): inference tensors can only be changed in inference_mode")
