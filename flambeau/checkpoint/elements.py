"""The elements of a tensor, in the form that files hold."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from flambeau.checkpoint.errors import RefusedContentError
from flambeau.core.devices.device import device
from flambeau.core.programs.finishing import alone
from flambeau.core.support.modes import modes
from flambeau.core.values.attributes import handle_on
from flambeau.core.values.convert import place
from flambeau.core.values.steps import Expand
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.upload import upload
from flambeau.core.values.view import View, result_of

__all__: list[str] = []

# NumPy's.
_MOST_DIMENSIONS = 64
# Positions of bytes are counted in 64 bits.
_MOST_BYTES = 1 << 63


def elements_of(tensor: Tensor) -> tuple[Any, ...]:
    """A key that is equal for two tensors if a write to either changes all of the other."""
    view = tensor._view
    if view is None:
        return id(tensor._cell), (), b""
    starts = b"" if view.starts is None else np.asarray(view.starts).tobytes()
    return id(tensor._cell), view.steps, starts


def array_of(tensor: Tensor) -> np.ndarray:
    """The elements in the order of the dimensions, the last one running fastest."""
    return np.asarray(tensor._host_array(), order="C")


def unexpanded(tensor: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """The tensor that an expanded tensor repeats, and the strides of the repetition.

    For any other tensor: the tensor, and the strides of `array_of`.
    """
    shape, view = tuple(tensor.shape), tensor._view
    while view is not None and isinstance(view.steps[-1], Expand):
        tensor, view = _before_last_step(tensor, view)
    own = tuple(tensor.shape)
    if own == shape:
        return tensor, strides_of(shape)
    aligned = zip(own, shape[len(shape) - len(own) :], strides_of(own), strict=True)
    strides = [stride if size == whole else 0 for size, whole, stride in aligned]
    return tensor, (*[0] * (len(shape) - len(own)), *strides)


def _before_last_step(tensor: Tensor, view: View) -> tuple[Tensor, View | None]:
    source = handle_on(tensor._cell, Tensor)
    steps, array = view.steps[:-1], tensor._cell.array
    if steps:
        shape, of = result_of(steps, tuple(array.shape), array.dtype)
        source._view = View(steps, view.names[:-1], view.starts, shape, of, None)
    return source, source._view


def at_one_moment(tensors: Iterable[Tensor]) -> list[Tensor]:
    """A consistent snapshot of the tensors' elements, from between two steps.

    Later steps of other threads do not change them.
    """
    found = alone(lambda: [each._read() for each in tensors])
    return [*map(Tensor._wrap, found)]


def bytes_of(tensor: Tensor) -> memoryview:
    """The bytes of `array_of`; not every dtype can be passed as a buffer."""
    return array_of(tensor).reshape(-1).view(np.uint8).data


def array_from(data: bytes | np.ndarray, numpy_dtype: Any) -> np.ndarray:
    """The elements in these bytes; for bools, every byte other than 0 is True."""
    if numpy_dtype == np.bool_:
        return np.frombuffer(data, np.uint8) != 0
    return np.frombuffer(data, numpy_dtype)


def tensor_from(array: np.ndarray, where: device) -> Tensor:
    """A tensor on a device, which may share the memory of an array that is never written to."""
    if where.type == "meta" or modes.trace is not None:
        return Tensor._wrap(place(array, where))
    # Several times faster than `place`.
    return Tensor._wrap(upload(array, where.jax_device))


def strides_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides in elements of contiguous elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def checked_shape(sizes: Any, itemsize: int) -> tuple[int, ...]:
    """The sizes stated in a file, if they are valid for a tensor.

    Raises:
        RefusedContentError: They are not.
    """
    if not isinstance(sizes, list | tuple):
        raise RefusedContentError(
            f"the sizes of a tensor are a {type(sizes).__name__}, not a list or a tuple"
        )
    if len(sizes) > _MOST_DIMENSIONS:
        raise RefusedContentError(f"a tensor cannot have {len(sizes)} dimensions")
    if not all(type(each) is int and each >= 0 for each in sizes):
        raise RefusedContentError("the sizes of a tensor must be whole numbers")
    if itemsize * math.prod(max(each, 1) for each in sizes) >= _MOST_BYTES:
        raise RefusedContentError(f"a tensor of sizes {sizes!s:.200} is larger than any memory")
    return tuple(sizes)
