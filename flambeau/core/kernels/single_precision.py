"""Half precision, computed in single precision and rounded once, as PyTorch does.

Sums need it most: eight or eleven bits of precision cannot hold a running sum of many numbers. The
gradients of arrays that are broadcast or read several times are such sums.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.promotion import is_number, result_dtype
from flambeau.core.support import dtype as dtypes
from flambeau.core.types import Leaf, Shape, Tree

_HALVES = {dtypes.float16.numpy, dtypes.bfloat16.numpy}


def is_half(array: object) -> bool:
    """Whether an array is of float16 or bfloat16."""
    return getattr(array, "dtype", None) in _HALVES


def single(array: Leaf) -> Leaf:
    """An array of half precision in single precision; any other value unchanged."""
    return array.astype(jnp.float32) if is_half(array) else array


def spread(array: jax.Array, shape: Shape) -> jax.Array:
    """``array`` broadcast to a shape, its gradient summed in single precision."""
    return jnp.broadcast_to(single(array), shape).astype(array.dtype)


def half_of(operands: Sequence[Tree], promoting: bool) -> np.dtype | None:
    """The 16-bit dtype of an operator's result for these operands, or ``None``.

    Args:
        operands: Arrays, tuples of arrays, numbers and ``None``.
        promoting: Whether 0-d tensors of other floating dtypes may be among them.
    """
    found = [each for each in _tensors(operands) if jnp.issubdtype(each.dtype, jnp.inexact)]
    kinds = {each.dtype for each in found}
    if not any(kind in _HALVES for kind in kinds) or (len(kinds) > 1 and not promoting):
        return None
    result = result_dtype(tuple(found)).numpy
    return result if result in _HALVES else None


def widened(operands: Sequence[Tree]) -> list[Tree]:
    """`single` of each array among ``operands``, and in the tuples among them."""
    return jax.tree.map(single, [*operands])


def narrowed(results: Tree, to: np.dtype) -> Tree:
    """``results`` with arrays of single precision rounded to the dtype ``to``."""
    return jax.tree.map(lambda e: e.astype(to) if e.dtype == jnp.float32 else e, results)


def _tensors(operands: Sequence[Tree]) -> list[jax.Array]:
    found = jax.tree.leaves([*operands])
    return [each for each in found if hasattr(each, "dtype") and not is_number(each)]
