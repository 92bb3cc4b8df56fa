"""One matrix times many matrices, for a CPU.

XLA turns the products of one matrix with many into a single product. For that it transposes all of
the many, and the result, which may take three times as long as the product itself. Batched products
are not transposed. So the single matrix is repeated, if that is small compared to the elements that
would be transposed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from flambeau.ops.cpu_forms.trilinear import trilinear

__all__: list[str] = []

# Repeat an array of up to 1/4 of the elements that would be transposed, or of up to this many
# elements.
_PARTS = 4
_SMALL = 1 << 12


class _Shapes(NamedTuple):
    """The shapes of the many, ``(N, *groups, K, P)``, and of the one, ``(*groups, O, K)``."""

    left: tuple[int, ...]
    right: tuple[int, ...]


def shared_product(matrix: Any, arrays: Any) -> Any:
    """``matrix @ each`` for each of ``arrays``.

    Args:
        matrix: ``(*groups, O, K)``.
        arrays: ``(N, *groups, K, P)``.

    Returns:
        ``(N, *groups, O, P)``.
    """
    shapes = _Shapes(arrays.shape, matrix.shape)
    rows, columns = matrix.shape[-2:]
    positions = arrays.shape[-1]
    parts = 1 if rows * columns <= _SMALL else _PARTS
    repeats = rows * columns * parts <= positions * (rows + columns)
    return (_product if repeats else _plain)(arrays, matrix, shapes)


def _plain(arrays: Any, matrix: Any, shapes: _Shapes) -> Any:
    return jnp.einsum("...ok,n...kp->n...op", matrix, arrays)


def _repeated(arrays: Any, matrix: Any, shapes: _Shapes) -> Any:
    """The product with the matrix repeated for each of the arrays."""
    return jnp.matmul(jnp.broadcast_to(matrix, (len(arrays), *matrix.shape)), arrays)


def _by_arrays(cotangents: Any, matrix: Any, shapes: _Shapes) -> Any:
    return _repeated(cotangents, matrix.swapaxes(-1, -2), shapes)


def _by_matrix(cotangents: Any, arrays: Any, shapes: _Shapes) -> Any:
    wide = jnp.promote_types(arrays.dtype, jnp.float32)
    each = jnp.matmul(cotangents, arrays.swapaxes(-1, -2), preferred_element_type=wide)
    return jnp.sum(each, 0).astype(arrays.dtype)


_product = trilinear("shared_product", _plain, _repeated, _by_arrays, _by_matrix, samples=True)
