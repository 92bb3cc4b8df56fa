"""Views under another shape or order of dimensions: `view`, `permute`, `squeeze`, `expand`, …

A view shares its elements with its base: a write to one changes the other, and gradients flow
through.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import function, op
from flambeau.core.operators.viewing import become_view, make_view
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.convert import make, to_numpy
from flambeau.core.values.steps import Bitcast, ComplexPairs, ComplexPart, Expand, Reshape
from flambeau.core.values.strides import can_reshape, is_in_order
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.common.dims import fill_in_size, sizes_of, wrap_listed

__all__ = [
    "alias",
    "broadcast_to",
    "detach",
    "flatten",
    "imag",
    "ravel",
    "real",
    "reshape",
    "squeeze",
    "unflatten",
    "unsqueeze",
    "view_as_complex",
    "view_as_real",
]


# Another shape


@function(method=True)
def view(self: Tensor, *sizes: Any, size: Any = None, dtype: dtypes.dtype | None = None) -> Any:
    """The same elements under another shape, or their bits as another dtype.

    ``view(*sizes)`` and ``view(size)``: one size may be -1 and follows from the others.
    ``view(dtype)``: the bits read as that dtype; if its elements are smaller or larger, the last
    dimension grows or shrinks accordingly. No gradient flows through a dtype view.

    Every tensor behaves as a contiguous one, so unlike PyTorch's, ``view`` never fails on strides.

    Raises:
        RuntimeError: The elements do not fit into the shape or the dtype.

    >>> import flambeau
    >>> x = flambeau.arange(6)
    >>> x.view(2, -1).shape
    flambeau.Size([2, 3])
    """
    if dtype is None and len(sizes) == 1:
        only = dtypes.of_python_type(sizes[0])
        dtype = only if isinstance(only, dtypes.dtype) else None
    dtype = dtypes.of_python_type(dtype)
    if dtype is not None:
        return _view_dtype(self, dtype)
    if not sizes and size is None:
        raise TypeError("view() needs sizes or a dtype")
    return _reshaped(self, sizes_of(sizes, "view", size), "view")


def _reshaped(source: Tensor, shape: tuple[int, ...], name: str, node: str = "view") -> Any:
    return make_view(source, Reshape(fill_in_size(shape, source.numel(), f"{name}()")), node)


def _view_dtype(source: Tensor, to: dtypes.dtype) -> Any:
    have = source.dtype
    if to is have:
        return make_view(source, Reshape(tuple(source.shape)), "alias")
    if to.itemsize != have.itemsize:
        if not source.ndim:
            raise RuntimeError(
                f"view(): a 0-d tensor of {have} cannot be read as {to}, whose elements have "
                f"{to.itemsize} bytes instead of {have.itemsize}"
            )
        if source.shape[-1] * have.itemsize % to.itemsize:
            raise RuntimeError(
                f"view(): the last dimension, {source.shape[-1]} elements of {have}, is not a "
                f"whole number of elements of {to}"
            )
    return make_view(source, Bitcast(to.numpy), "view")


@op(node="UnsafeViewBackward0", linear=True)
def _reshape_copy(input: Array, shape: Any) -> Array:
    return input.reshape(shape)


@function(method="reshape")
def reshape(input: Tensor, *sizes: Any, shape: Any = None) -> Any:
    """The same elements in the same order under another shape.

    A view of ``input`` if PyTorch would return one; a copy if it would have to move elements, as
    for a transposed tensor. One size may be -1.

    Raises:
        RuntimeError: The elements do not fit.
    """
    return _reshape(input, sizes_of(sizes, "reshape", shape), "reshape")


def _reshape(source: Tensor, shape: tuple[int, ...], name: str) -> Any:
    shape = fill_in_size(shape, source.numel(), f"{name}()")
    seen, name = source._view, "view"
    if seen is not None:
        array = source._cell.array
        if not can_reshape(seen, array.shape, array.dtype, shape):
            return _reshape_copy(source, shape)
        if not is_in_order(seen, array.shape, array.dtype):
            name = "reshape_alias"
    return make_view(source, Reshape(shape), name)


@function(method=True)
def view_as(self: Tensor, other: Tensor) -> Any:
    """The same elements under the shape of ``other``."""
    return _reshaped(self, tuple(other.shape), "view_as")


@function(method=True)
def reshape_as(self: Tensor, other: Tensor) -> Any:
    """`reshape` to the shape of ``other``."""
    return _reshape(self, tuple(other.shape), "reshape_as")


@function(method=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dimensions ``start_dim`` to ``end_dim`` merged; a 0-d tensor becomes one of 1 element.

    Raises:
        IndexError: A dimension is out of range.
        RuntimeError: ``start_dim`` comes after ``end_dim``.
    """
    shape = tuple(input.shape)
    start = wrap_dim(start_dim, len(shape), "flatten")
    end = wrap_dim(end_dim, len(shape), "flatten")
    if start > end:
        raise RuntimeError(f"flatten(): start_dim {start_dim} comes after end_dim {end_dim}")
    if not shape:
        return _reshape(input, (1,), "flatten")
    if start == end:
        return input
    merged = math.prod(shape[start : end + 1])
    return _reshape(input, (*shape[:start], merged, *shape[end + 1 :]), "flatten")


@function(method=True)
def unflatten(input: Tensor, dim: Any, sizes: Any) -> Any:
    """Dimension ``dim`` split into the given ``sizes``, of which one may be -1.

    Raises:
        IndexError: ``dim`` is out of range.
        RuntimeError: The sizes do not multiply to the dimension's, or no sizes are given.
    """
    shape = tuple(input.shape)
    dim = wrap_dim(dim, len(shape), "unflatten")
    sizes = sizes_of((sizes,), "unflatten") if not isinstance(sizes, int) else (sizes,)
    if not sizes:
        raise RuntimeError("unflatten(): sizes must not be empty")
    sizes = fill_in_size(sizes, shape[dim], f"unflatten() of dimension {dim}")
    return make_view(input, Reshape((*shape[:dim], *sizes, *shape[dim + 1 :])), "view")


@function(method=True)
def ravel(input: Tensor) -> Any:
    """The elements in one dimension; a view if they are contiguous in the base."""
    return _reshape(input.contiguous(), (-1,) if input.numel() else (0,), "ravel")


@function(method=True)
def squeeze(input: Tensor, dim: Any = None) -> Any:
    """Removes the dimensions of size 1, or those of size 1 among ``dim``.

    Args:
        dim: A dimension or a tuple of them; dimensions of other sizes are kept.

    Raises:
        IndexError: A dimension is out of range.
    """
    step, name = _squeezing(input, dim, "squeeze")
    return make_view(input, step, name)


@function(method=True)
def squeeze_(self: Tensor, dim: Any = None) -> Any:
    """`squeeze`, in place: this tensor loses the dimensions."""
    step, name = _squeezing(self, dim, "squeeze_")
    return become_view(self, step, name)


def _squeezing(source: Tensor, dim: Any, name: str) -> tuple[Reshape, str]:
    shape = tuple(source.shape)
    if dim is None:
        dims, overload = range(len(shape)), "0"
    elif isinstance(dim, list | tuple):
        dims, overload = wrap_listed(dim, len(shape), name), "2"
    else:
        dims, overload = (wrap_dim(dim, len(shape), name),), "1"
    # A symbolic size of `jax.export` never equals 1, so it must be known to be greater.
    kept = tuple(n for d, n in enumerate(shape) if d not in dims or (n != 1 and (n > 1 or n == 0)))
    return Reshape(kept), f"squeeze{overload}"


@function(method=True)
def unsqueeze(input: Tensor, dim: Any) -> Any:
    """Inserts a new dimension of size 1 at ``dim``.

    Raises:
        IndexError: ``dim`` is not within ``-ndim - 1`` and ``ndim``.
    """
    return make_view(input, _unsqueezing(input, dim, "unsqueeze"), "unsqueeze")


@function(method=True)
def unsqueeze_(self: Tensor, dim: Any) -> Any:
    """`unsqueeze`, in place: this tensor gains the dimension."""
    return become_view(self, _unsqueezing(self, dim, "unsqueeze_"), "unsqueeze")


def _unsqueezing(source: Tensor, dim: Any, name: str) -> Reshape:
    shape = tuple(source.shape)
    dim = wrap_dim(dim, len(shape) + 1, name)
    return Reshape((*shape[:dim], 1, *shape[dim:]))


# Repetition without copies


@function(method=True)
def expand(self: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Any:
    """Repeats dimensions of size 1, and adds leading dimensions, without copying.

    Args:
        sizes: The new sizes; -1 keeps that dimension's.

    Raises:
        RuntimeError: A dimension of another size than 1 would change, or there are too few sizes.
    """
    return expanded(self, sizes_of(sizes, "expand", size), "expand")


@function(method=True)
def expand_as(self: Tensor, other: Tensor) -> Any:
    """`expand` to the shape of ``other``."""
    return expanded(self, tuple(other.shape), "expand_as")


@function(method=True)
def broadcast_to(input: Tensor, *sizes: Any, size: Any = None) -> Any:
    """`expand` to shape ``size``."""
    return expanded(input, sizes_of(sizes, "broadcast_to", size), "broadcast_to")


def expanded(source: Tensor, sizes: tuple[int, ...], name: str) -> Any:
    """`expand` on behalf of the function ``name``."""
    shape = tuple(source.shape)
    new = len(sizes) - len(shape)
    if new < 0:
        raise RuntimeError(
            f"{name}(): {len(sizes)} sizes {list(sizes)} are too few for a tensor with "
            f"{len(shape)} dimensions {list(shape)}"
        )
    if any(size < -1 for size in sizes) or -1 in sizes[:new]:
        raise RuntimeError(
            f"{name}(): {list(sizes)} has a negative size other than -1, or -1 for a new dimension"
        )
    filled = sizes[:new] + tuple(
        have if size == -1 else size for have, size in zip(shape, sizes[new:], strict=True)
    )
    for d, (have, size) in enumerate(zip(shape, filled[new:], strict=True)):
        if have not in (1, size):
            raise RuntimeError(
                f"{name}(): dimension {d} of size {have} cannot expand to {size}: target sizes "
                f"{list(sizes)}, tensor sizes {list(shape)}"
            )
    return make_view(source, Expand(filled), "expand")


# Complex numbers


@function
def view_as_real(input: Tensor) -> Any:
    """Complex numbers as pairs (real, imaginary) in a new last dimension of size 2.

    Raises:
        RuntimeError: ``input`` is not complex.
    """
    if not input.is_complex():
        raise RuntimeError(f"view_as_real() needs a complex tensor, got {input.dtype}")
    return make_view(input, ComplexPairs(inverse=False), "view_as_real")


@function
def view_as_complex(input: Tensor) -> Any:
    """Pairs in the last dimension as complex numbers.

    Raises:
        RuntimeError: The last dimension is not of size 2, or the dtype has no complex counterpart.
    """
    if not input.is_floating_point() or input.dtype.to_complex().to_real() is not input.dtype:
        raise RuntimeError(
            f"view_as_complex() needs a float32 or float64 tensor, got {input.dtype}"
        )
    if not input.ndim or input.shape[-1] != 2:
        raise RuntimeError(
            f"view_as_complex() needs a last dimension of size 2, got shape {list(input.shape)}"
        )
    return make_view(input, ComplexPairs(inverse=True), "view_as_complex")


@function
def real(input: Tensor) -> Any:
    """The real parts; a real tensor itself."""
    if not input.is_complex():
        return input
    return make_view(input, ComplexPart(imaginary=False), "select")


@function
def imag(input: Tensor) -> Any:
    """The imaginary parts of a complex tensor.

    Raises:
        RuntimeError: ``input`` is not complex.
    """
    if not input.is_complex():
        raise RuntimeError(f"imag() needs a complex tensor, got {input.dtype}")
    return make_view(input, ComplexPart(imaginary=True), "select")


def _set_part(name: str) -> Any:
    def assign(self: Tensor, value: Any) -> None:
        getattr(self, name).copy_(value if isinstance(value, Tensor) else make(to_numpy(value)))

    return assign


Tensor.real = property(real, _set_part("real"))
Tensor.imag = property(imag, _set_part("imag"))


# The whole


@function
def alias(input: Tensor) -> Any:
    """A view of all of ``input``."""
    return make_view(input, Reshape(tuple(input.shape)), "alias")


@function
def detach(input: Tensor) -> Any:
    """The same elements as a tensor that is not part of the tape."""
    return input.detach()
