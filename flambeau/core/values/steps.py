"""The steps of views: each reads and writes a part of an array.

Where a step starts is data, not structure: ``x[i]`` for a thousand different ``i`` is one program.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from flambeau.core.kernels.single_precision import spread
from flambeau.core.types import Shape

#: Start positions of steps, in order: a NumPy array, a traced one, or ``None`` without any.
Starts: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same elements, in the same order, under another shape."""

    shape: tuple[int, ...]
    starts: ClassVar[int] = 0

    def result(self, shape: Shape, dtype: np.dtype) -> tuple[Shape, np.dtype]:
        """Shape and NumPy dtype of the array that reading gives."""
        return self.shape, dtype

    def read(self, array: jax.Array, starts: Starts) -> jax.Array:
        """The viewed part of ``array``."""
        return jnp.reshape(array, self.shape)

    def write(self, array: jax.Array, starts: Starts, part: jax.Array) -> jax.Array:
        """``array`` with the viewed part replaced."""
        return jnp.reshape(part, array.shape)


@dataclass(frozen=True, slots=True)
class Permute:
    """Dimensions in another order: output dimension ``i`` is input dimension ``dims[i]``."""

    dims: tuple[int, ...]
    starts: ClassVar[int] = 0

    def result(self, shape: Shape, dtype: np.dtype) -> tuple[Shape, np.dtype]:
        """Shape and NumPy dtype of the array that reading gives."""
        return tuple(shape[d] for d in self.dims), dtype

    def read(self, array: jax.Array, starts: Starts) -> jax.Array:
        """The viewed part of ``array``."""
        return jnp.transpose(array, self.dims)

    def write(self, array: jax.Array, starts: Starts, part: jax.Array) -> jax.Array:
        """``array`` with the viewed part replaced."""
        inverse = sorted(range(len(self.dims)), key=self.dims.__getitem__)
        return jnp.transpose(part, inverse)


@dataclass(frozen=True, slots=True)
class Expand:
    """Dimensions of size 1 repeated, and new leading ones, without copying."""

    shape: tuple[int, ...]
    starts: ClassVar[int] = 0

    def result(self, shape: Shape, dtype: np.dtype) -> tuple[Shape, np.dtype]:
        """Shape and NumPy dtype of the array that reading gives."""
        return self.shape, dtype

    def read(self, array: jax.Array, starts: Starts) -> jax.Array:
        """The viewed part of ``array``."""
        return spread(array, self.shape)

    def write(self, array: jax.Array, starts: Starts, part: jax.Array) -> jax.Array:
        """``array`` with the viewed part replaced; fails where elements are repeated."""
        if array.size != part.size:
            raise RuntimeError(
                f"cannot write in place to a tensor expanded from {list(array.shape)} to "
                f"{list(self.shape)}: several of its elements are one element of the original; "
                "call clone() first"
            )
        return jnp.reshape(part, array.shape)


@dataclass(frozen=True, slots=True)
class Cut:
    """One dimension of a `Slice`.

    Attributes:
        dim: The dimension.
        size: The number of positions.
        stride: The step between them.
        squeeze: Whether the dimension disappears; ``size`` is 1 then.
        computed: Whether the program computes the start. A position out of range is then clamped to
            the dimension's size, where a read gives NaN (the least integer, True) and a write has
            no effect.
    """

    dim: int
    size: int
    stride: int
    squeeze: bool
    computed: bool = False

    @property
    def span(self) -> int:
        """The length of the cut in its dimension, from its start."""
        return (self.size - 1) * self.stride + 1 if self.size else 0


@dataclass(frozen=True, slots=True)
class Slice:
    """Ranges along some dimensions; a squeezed one is an integer index."""

    cuts: tuple[Cut, ...]

    @property
    def starts(self) -> int:
        """The number of start positions that the step takes."""
        return len(self.cuts)

    def result(self, shape: Shape, dtype: np.dtype) -> tuple[Shape, np.dtype]:
        """Shape and NumPy dtype of the array that reading gives."""
        sizes = list(shape)
        for cut in self.cuts:
            sizes[cut.dim] = cut.size
        squeezed = self._squeezed
        return tuple(size for d, size in enumerate(sizes) if d not in squeezed), dtype

    @property
    def _squeezed(self) -> tuple[int, ...]:
        return tuple(cut.dim for cut in self.cuts if cut.squeeze)

    def _block(self, array: jax.Array, starts: Starts) -> tuple[list[jax.Array], jax.Array]:
        positions, sizes = [jnp.int64(0)] * array.ndim, list(array.shape)
        for i, cut in enumerate(self.cuts):
            positions[cut.dim], sizes[cut.dim] = starts[i], cut.span
        return positions, lax.dynamic_slice(array, positions, sizes)

    def _strides(self, ndim: int) -> list[int] | None:
        """The stride in each dimension; ``None`` if all are one."""
        strides = [1] * ndim
        for cut in self.cuts:
            strides[cut.dim] = cut.stride
        return None if set(strides) <= {1} else strides

    def read(self, array: jax.Array, starts: Starts) -> jax.Array:
        """The viewed part of ``array``."""
        _, block = self._block(array, starts)
        strides = self._strides(array.ndim)
        part = lax.slice(block, [0] * array.ndim, block.shape, strides) if strides else block
        part = lax.squeeze(part, self._squeezed)
        if not self._is_computed:
            return part
        return jnp.where(self._is_inside(array, starts), part, missing(array.dtype))

    def write(self, array: jax.Array, starts: Starts, part: jax.Array) -> jax.Array:
        """``array`` with the viewed part replaced."""
        positions, block = self._block(array, starts)
        part = lax.expand_dims(part, self._squeezed)
        strides = self._strides(array.ndim)
        if strides:
            part = block.at[tuple(slice(None, None, stride) for stride in strides)].set(part)
        if self._is_computed:
            part = jnp.where(self._is_inside(array, starts), part, block)
        return lax.dynamic_update_slice(array, part, positions)

    @property
    def _is_computed(self) -> bool:
        return any(cut.computed for cut in self.cuts)

    def _is_inside(self, array: jax.Array, starts: Starts) -> jax.Array:
        pairs = zip(self.cuts, starts, strict=True)
        found = [start < array.shape[cut.dim] for cut, start in pairs if cut.computed]
        return functools.reduce(jnp.logical_and, found)


def missing(dtype: np.dtype) -> np.ndarray | np.bool:
    """The value read at positions out of range."""
    if jnp.issubdtype(dtype, jnp.inexact):
        return np.asarray(np.nan, dtype)
    if dtype == np.bool_:
        return np.True_
    limits = np.iinfo(dtype)
    return np.asarray(limits.min or limits.max, dtype)


@dataclass(frozen=True, slots=True)
class Diagonal:
    """The ``offset``-th diagonal of two dimensions, as a new last dimension."""

    offset: int
    dim1: int
    dim2: int
    starts: ClassVar[int] = 0

    def _length(self, shape: tuple[int, ...]) -> int:
        rows, columns = shape[self.dim1], shape[self.dim2]
        return max(0, min(rows + min(self.offset, 0), columns - max(self.offset, 0)))

    def result(self, shape: Shape, dtype: np.dtype) -> tuple[Shape, np.dtype]:
        """Shape and NumPy dtype of the array that reading gives."""
        kept = tuple(n for d, n in enumerate(shape) if d not in (self.dim1, self.dim2))
        return (*kept, self._length(shape)), dtype

    def read(self, array: jax.Array, starts: Starts) -> jax.Array:
        """The viewed part of ``array``."""
        return jnp.diagonal(array, self.offset, self.dim1, self.dim2)

    def write(self, array: jax.Array, starts: Starts, part: jax.Array) -> jax.Array:
        """``array`` with the viewed part replaced."""
        along = jnp.arange(self._length(array.shape))
        moved = jnp.moveaxis(array, (self.dim1, self.dim2), (-2, -1))
        rows, columns = along - min(self.offset, 0), along + max(self.offset, 0)
        moved = moved.at[..., rows, columns].set(part)
        return jnp.moveaxis(moved, (-2, -1), (self.dim1, self.dim2))


@dataclass(frozen=True, slots=True)
class Bitcast:
    """The same bits read as another dtype; the last dimension scales with the element size."""

    numpy_dtype: np.dtype
    starts: ClassVar[int] = 0

    def result(self, shape: Shape, dtype: np.dtype) -> tuple[Shape, np.dtype]:
        """Shape and NumPy dtype of the array that reading gives."""
        if self.numpy_dtype.itemsize == dtype.itemsize:
            return shape, self.numpy_dtype
        last = shape[-1] * dtype.itemsize // self.numpy_dtype.itemsize
        return (*shape[:-1], last), self.numpy_dtype

    def read(self, array: jax.Array, starts: Starts) -> jax.Array:
        """The viewed part of ``array``."""
        return _bitcast(array, self.numpy_dtype)

    def write(self, array: jax.Array, starts: Starts, part: jax.Array) -> jax.Array:
        """``array`` with the viewed part replaced."""
        return _bitcast(part, array.dtype)


def _bitcast(array: jax.Array, to: np.dtype) -> jax.Array:
    if array.dtype == to:
        return array
    if not array.ndim:
        return _bitcast(array.reshape(1), to).reshape(())
    if jnp.iscomplexobj(array):
        return _bitcast(_joined(_to_pairs(array)), to)
    if to.kind == "c":
        parts = _bitcast(array, _real_dtype(to))
        return _from_pairs(parts.reshape(*parts.shape[:-1], -1, 2))
    before, after = array.dtype.itemsize, to.itemsize
    if before == after:
        return _convert_bits(array, to)
    # XLA fails to merge two bit conversions that change the number of elements.
    array = lax.optimization_barrier(array)
    if before > after:
        return _joined(_convert_bits(array, to))
    return _convert_bits(array.reshape(*array.shape[:-1], -1, after // before), to)


def _real_dtype(dtype: Any) -> np.dtype:
    """The dtype of the parts of a complex one."""
    return np.empty(0, dtype).real.dtype


def _convert_bits(array: jax.Array, to: np.dtype) -> jax.Array:
    """`lax.bitcast_convert_type` that also takes bools."""
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    if to == np.bool_:
        return lax.bitcast_convert_type(array, np.uint8).astype(np.bool_)
    return lax.bitcast_convert_type(array, to)


def _joined(array: jax.Array) -> jax.Array:
    """The last dimension (the parts of one element) merged into the one before."""
    return array.reshape(*array.shape[:-2], -1)


@dataclass(frozen=True, slots=True)
class ComplexPart:
    """The real or imaginary part of a complex tensor."""

    imaginary: bool
    starts: ClassVar[int] = 0

    def result(self, shape: Shape, dtype: np.dtype) -> tuple[Shape, np.dtype]:
        """Shape and NumPy dtype of the array that reading gives."""
        return shape, _real_dtype(dtype)

    def read(self, array: jax.Array, starts: Starts) -> jax.Array:
        """The viewed part of ``array``."""
        return jnp.imag(array) if self.imaginary else jnp.real(array)

    def write(self, array: jax.Array, starts: Starts, part: jax.Array) -> jax.Array:
        """``array`` with the viewed part replaced."""
        if self.imaginary:
            return lax.complex(jnp.real(array), part)
        return lax.complex(part, jnp.imag(array))


@dataclass(frozen=True, slots=True)
class ComplexPairs:
    """Complex numbers as pairs in a new last dimension, or (``inverse``) pairs as numbers."""

    inverse: bool
    starts: ClassVar[int] = 0

    def result(self, shape: Shape, dtype: np.dtype) -> tuple[Shape, np.dtype]:
        """Shape and NumPy dtype of the array that reading gives."""
        if self.inverse:
            return shape[:-1], np.result_type(dtype, np.complex64)
        return (*shape, 2), _real_dtype(dtype)

    def read(self, array: jax.Array, starts: Starts) -> jax.Array:
        """The viewed part of ``array``."""
        return _from_pairs(array) if self.inverse else _to_pairs(array)

    def write(self, array: jax.Array, starts: Starts, part: jax.Array) -> jax.Array:
        """``array`` with the viewed part replaced."""
        return _to_pairs(part) if self.inverse else _from_pairs(part)


def _to_pairs(array: jax.Array) -> jax.Array:
    return jnp.stack((jnp.real(array), jnp.imag(array)), -1)


def _from_pairs(array: jax.Array) -> jax.Array:
    return lax.complex(array[..., 0], array[..., 1])


@dataclass(frozen=True, slots=True)
class Windows:
    """Overlapping windows along one dimension, as a new last dimension (`Tensor.unfold`)."""

    dim: int
    size: int
    step: int
    starts: ClassVar[int] = 0

    def _count(self, length: int) -> int:
        return (length - self.size) // self.step + 1

    def _positions(self, length: int) -> jax.Array:
        first = jnp.arange(self._count(length)) * self.step
        return first[:, None] + jnp.arange(self.size)

    def result(self, shape: Shape, dtype: np.dtype) -> tuple[Shape, np.dtype]:
        """Shape and NumPy dtype of the array that reading gives."""
        if not shape:
            return (self.size,), dtype
        count = self._count(shape[self.dim])
        return (*shape[: self.dim], count, *shape[self.dim + 1 :], self.size), dtype

    def read(self, array: jax.Array, starts: Starts) -> jax.Array:
        """The viewed part of ``array``."""
        if not array.ndim:
            return jnp.reshape(array, 1)[: self.size]
        array = jnp.moveaxis(array, self.dim, -1)
        windows = array[..., self._positions(array.shape[-1])]
        return jnp.moveaxis(windows, -2, self.dim)

    def write(self, array: jax.Array, starts: Starts, part: jax.Array) -> jax.Array:
        """``array`` with the viewed part replaced; fails where windows overlap."""
        if not array.ndim:
            return jnp.reshape(part, ()) if self.size else array
        if self.step < self.size and self._count(array.shape[self.dim]) > 1:
            raise RuntimeError("cannot write in place to overlapping windows; call clone() first")
        moved = jnp.moveaxis(array, self.dim, -1)
        windows = jnp.moveaxis(part, self.dim, -2)
        moved = moved.at[..., self._positions(moved.shape[-1])].set(windows)
        return jnp.moveaxis(moved, -1, self.dim)


@dataclass(frozen=True, slots=True)
class Strided:
    """Elements at regular distances from a start, for any shape of the array."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    starts: ClassVar[int] = 1

    def _positions(self, start: jax.typing.ArrayLike) -> jax.Array:
        positions = jnp.asarray(start)
        for size, stride in zip(self.shape, self.strides, strict=True):
            positions = positions[..., None] + jnp.arange(size) * stride
        return positions

    def result(self, shape: Shape, dtype: np.dtype) -> tuple[Shape, np.dtype]:
        """Shape and NumPy dtype of the array that reading gives."""
        return self.shape, dtype

    def read(self, array: jax.Array, starts: Starts) -> jax.Array:
        """The viewed part of ``array``."""
        return jnp.reshape(array, -1)[self._positions(starts[0])]

    def write(self, array: jax.Array, starts: Starts, part: jax.Array) -> jax.Array:
        """``array`` with the viewed part replaced."""
        flat = jnp.reshape(array, -1).at[self._positions(starts[0])].set(part)
        return jnp.reshape(flat, array.shape)


Step = (
    Reshape | Permute | Expand | Slice | Diagonal | Bitcast | ComplexPart | ComplexPairs | Windows
    | Strided
)  # fmt: skip
