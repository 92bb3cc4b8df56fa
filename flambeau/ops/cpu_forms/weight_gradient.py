"""Matrix products whose gradient by the right factor is a product along rows, for a CPU.

This gradient is a sum over rows of two matrices, one of which XLA's Eigen kernel reads by column.
If rows have a multiple of 512 numbers, a column maps to few cache lines. With an explicit
transposed copy, YNNPACK computes the sum along rows, and copy and sum together take less time.
"""

from __future__ import annotations

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


def turns(left: Any, right: Any, axis: int) -> bool:
    """Whether `matrix_product` with its gradients is faster for these operands than XLA's.

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
    # Without the barrier, XLA would merge the copy and the sum into one product.
    return _over(lax.optimization_barrier(first.T), second, 0)


_product = trilinear("weight_gradient", _plain, _plain, _by_left, _by_right, samples=True)
