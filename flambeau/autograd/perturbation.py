"""Tools to check gradients: directions, step sizes, and directional derivatives.

Complex numbers count as pairs of real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from flambeau.autograd.directional import along, along_all
from flambeau.core.values.tensor import Tensor


def random_array(shape: Sequence[int], numpy_dtype: Any) -> np.ndarray:
    """A fixed pseudorandom direction, drawn without the user's random state."""
    source = np.random.default_rng(0)
    values = source.uniform(0.5, 1.5, tuple(shape))
    if np.issubdtype(numpy_dtype, np.complexfloating):
        values = values + 1j * source.uniform(0.5, 1.5, tuple(shape))
    return values.astype(numpy_dtype)


def random_like(tensor: Tensor) -> Tensor:
    """`random_array` with the shape, dtype and device of a tensor."""
    return like(tensor, random_array(tensor.shape, tensor.dtype.numpy))


def like(tensor: Tensor, values: np.ndarray) -> Tensor:
    """A tensor of these values, with the dtype and device of ``tensor``."""
    array = np.asarray(values, tensor.dtype.numpy)
    return Tensor._wrap(jax.device_put(array, tensor._read().sharding))


def wide(array: Any) -> np.ndarray:
    """``array`` in a precision that is sufficient for finite differences."""
    values = np.asarray(array)
    is_complex = np.issubdtype(values.dtype, np.complexfloating)
    return values.astype(np.complex128 if is_complex else np.float64)


def wide_dtype(tensor: Tensor) -> Any:
    """The dtype of `wide` for a tensor."""
    return np.complex128 if tensor.dtype.is_complex else np.float64


def unit_cotangents(output: Tensor) -> Iterator[Tensor]:
    """For each element the cotangent of its real part, then of its imaginary part if it has one."""
    units = (1, 1j) if output.dtype.is_complex else (1,)
    for unit in units:
        for element in np.ndindex(*output.shape):
            values = np.zeros(tuple(output.shape), output.dtype.numpy)
            values[element] = unit
            yield like(output, values)


def unit_changes(source: Tensor) -> Iterator[np.ndarray]:
    """For each element a change of its real part, then of its imaginary part if it has one."""
    units = (1, 1j) if source.dtype.is_complex else (1,)
    for element in np.ndindex(*source.shape):
        for unit in units:
            values = np.zeros(tuple(source.shape), wide_dtype(source))
            values[element] = unit
            yield values


def real_parts(derivative: np.ndarray) -> np.ndarray:
    """The real parts of all elements, then the imaginary parts if they have any."""
    flat = derivative.ravel()
    return np.concatenate([np.real(flat), np.imag(flat)]) if np.iscomplexobj(flat) else flat


class Forward:
    """Derivatives of a function along changes of one argument, in forward mode.

    Args:
        func: A function of the arguments that returns a Tensor or a tuple of them.
        arguments: The arguments at which the derivatives are computed.
        place: The index of the argument that changes.
    """

    def __init__(self, func: Callable[..., Any], arguments: Sequence[Any], place: int) -> None:
        self.func = func
        self.arguments = arguments
        self.place = place
        self.source: Tensor = arguments[place]

    def along(self, change: np.ndarray) -> list[np.ndarray]:
        """The derivatives of the outputs that take a gradient."""
        pairs = along(self.func, self.arguments, {self.place: self._direction(change)})
        return [wide(each.detach()._read()) for each in _derivatives(pairs)]

    def along_all(self, changes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The derivatives of `along` for several changes at once, stacked."""
        directions = {self.place: self._direction(np.stack(changes))}
        found = along_all(self.func, self.arguments, directions, _derivatives)
        return [wide(each) for each in found]

    def _direction(self, change: np.ndarray) -> Any:
        return like(self.source, change)._read()


def _derivatives(pairs: Sequence[tuple[Any, Any]]) -> list[Tensor]:
    return [
        derivative
        for output, derivative in pairs
        if isinstance(output, Tensor) and output.requires_grad
    ]
