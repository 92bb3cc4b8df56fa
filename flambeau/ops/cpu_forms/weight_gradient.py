"""Products of two matrices whose gradient by the right one is a product along rows, for a CPU.

That gradient is a sum over rows of two matrices, of which XLA has Eigen read one down its columns.
Where a row has a multiple of 512 numbers, the numbers of a column share few places of the cache.
With a copy that is turned round first, YNNPACK computes the sum along rows, and takes less time
for both.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from flambeau.core.compiler import cpu_forms
from flambeau.ops.cpu_forms.trilinear import trilinear

__all__: list[str] = []

_PITCH = 512
# Eigen is faster with fewer rows.
_LEAST_ROWS = 4


class _Shapes(NamedTuple):
    """Of the two matrices, and the dimension of the right one that is summed over."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    axis: int


def turns(left: Any, right: Any, axis: int) -> bool:
    """Whether `matrix_product` is faster for these operands, with its gradients, than XLA's own.

    The arguments are those of `matrix_product`, with any number of dimensions.
    """
    return (
        cpu_forms()
        and left.ndim == right.ndim == 2
        and left.dtype == right.dtype == jnp.float32
        and left.shape[0] >= _LEAST_ROWS
        # The gradient by the right matrix has a row for each of these columns.
        and (right.shape[0] if axis else left.shape[1]) % _PITCH == 0
    )


def matrix_product(left: Any, right: Any, axis: int) -> Any:
    """``left @ right``, or ``left @ right.T`` where ``axis`` is 1.

    Args:
        left: ``(N, K)``.
        right: ``(K, O)`` where ``axis`` is 0, ``(O, K)`` where it is 1.
        axis: The dimension of ``right`` that is summed over.
    """
    return _product(left, right, _Shapes(left.shape, right.shape, axis))


def _over(left: Any, right: Any, axis: int) -> Any:
    return lax.dot_general(left, right, (((1,), (axis,)), ((), ())))


def _plain(left: Any, right: Any, shapes: _Shapes) -> Any:
    return _over(left, right, shapes.axis)


def _by_left(cotangents: Any, right: Any, shapes: _Shapes) -> Any:
    return _over(cotangents, right, 1 - shapes.axis)


def _by_right(cotangents: Any, left: Any, shapes: _Shapes) -> Any:
    first, second = (cotangents, left) if shapes.axis else (left, cotangents)
    # Without the barrier, XLA makes one product of the copy and the sum.
    return _over(lax.optimization_barrier(first.T), second, 0)


_product = trilinear("weight_gradient", _plain, _plain, _by_left, _by_right, samples=True)
