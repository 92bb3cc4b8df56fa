"""Products with a matrix, and their gradients, for a CPU.

XLA gives most products to YNNPACK, and some to slower kernels of Eigen. Two of these are avoided:

- The gradient by the right factor is a sum over rows of two matrices, one of which Eigen reads by
  column. If rows have a multiple of 512 numbers, a column maps to few cache lines. With an explicit
  transposed copy, YNNPACK computes the sum along rows, and both together take less time.
- XLA converts matrices of bfloat16 to single precision before it multiplies them, as it must where
  the result has half precision. YNNPACK reads them as they are where the result has single
  precision, if the left one has two rows or more.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from flambeau.core.devices.compiler import cpu_forms
from flambeau.ops.cpu_forms.trilinear import trilinear

__all__: list[str] = []

_PITCH = 512
# Eigen is faster with fewer rows.
_LEAST_ROWS = 4


class _Shapes(NamedTuple):
    """The shapes of the two matrices, and the dimension of the right one that is summed over."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    axis: int


def times_matrix(left: Any, right: Any, axis: int) -> Any:
    """``left @ right``, or ``left @ right.T`` where ``axis`` is 1, in its fastest form.

    Args:
        left: ``(..., K)``.
        right: ``(K, O)`` where ``axis`` is 0, ``(O, K)`` where it is 1.
        axis: The dimension of ``right`` that is summed over.
    """
    if _are_brief(left, right):
        *lead, size = left.shape
        found = matrix_product(left.reshape(math.prod(lead), size), right, axis)
        return found.reshape(*lead, right.shape[1 - axis])
    if turns(left, right, axis):
        return matrix_product(left, right, axis)
    return lax.dot_general(left, right, (((left.ndim - 1,), (axis,)), ((), ())))


def times_matrices(left: Any, right: Any) -> Any:
    """``left @ right`` of vectors or batches of matrices, in its fastest form."""
    lead = left.shape[:-2]
    if _are_brief(left, right) and lead == right.shape[:-2] and left.ndim == right.ndim > 2:
        one, other = (e.reshape(math.prod(lead), *e.shape[-2:]) for e in (left, right))
        found = _batched(one, other, _Shapes(one.shape, other.shape, 0))
        return found.reshape(*lead, *found.shape[1:])
    return jnp.matmul(left, right)


def _are_brief(left: Any, right: Any) -> bool:
    return cpu_forms() and left.dtype == right.dtype == jnp.bfloat16


def turns(left: Any, right: Any, axis: int) -> bool:
    """Whether a gradient in single precision is faster with a transposed copy.

    The arguments are those of `times_matrix`.
    """
    return (
        cpu_forms()
        and left.ndim == 2
        and left.dtype == right.dtype == jnp.float32
        and left.shape[0] >= _LEAST_ROWS
        # The gradient by the right matrix has a row for each of these columns.
        and (right.shape[0] if axis else left.shape[1]) % _PITCH == 0
    )


def matrix_product(left: Any, right: Any, axis: int) -> Any:
    """`times_matrix` of two matrices, in the form for a CPU."""
    return _product(left, right, _Shapes(left.shape, right.shape, axis))


def _plain(left: Any, right: Any, shapes: _Shapes) -> Any:
    return lax.dot_general(left, right, _numbers(left, 1, shapes.axis))


def _numbers(left: Any, axis: int, other: int) -> Any:
    """JAX's dimension numbers of a product of matrices, or of batches of them."""
    batch = (*range(left.ndim - 2),)
    return (((len(batch) + axis,), (len(batch) + other,)), (batch, batch))


def _over(left: Any, right: Any, axis: int) -> Any:
    kind, rows = left.dtype, left.shape[-2]
    if kind == jnp.bfloat16 and rows == 1:
        left = jnp.pad(left, [(0, 0)] * (left.ndim - 2) + [(0, 1), (0, 0)])
    wide = jnp.promote_types(kind, jnp.float32)
    found = lax.dot_general(left, right, _numbers(left, 1, axis), preferred_element_type=wide)
    return found[..., :rows, :].astype(kind)


def _whole(left: Any, right: Any, shapes: _Shapes) -> Any:
    return _over(left, right, shapes.axis)


def _by_left(cotangents: Any, right: Any, shapes: _Shapes) -> Any:
    return _over(cotangents, right, 1 - shapes.axis)


def _by_right(cotangents: Any, left: Any, shapes: _Shapes) -> Any:
    first, second = (cotangents, left) if shapes.axis else (left, cotangents)
    if first.shape[-2] < _LEAST_ROWS:
        return lax.dot_general(first, second, _numbers(first, 0, 0))
    # Without the barrier, XLA would merge the copy and the sum into one product.
    return _over(lax.optimization_barrier(first.swapaxes(-1, -2)), second, 0)


_product = trilinear("matrix_product", _plain, _whole, _by_left, _by_right, samples=True)
_batched = trilinear("matrix_products", _plain, _whole, _by_left, _by_right)
