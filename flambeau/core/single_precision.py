"""Half precision, computed in single precision and rounded once, as PyTorch does.

Sums need it most: eleven or eight bits hold a running sum of many numbers no longer. Among them are
the gradients of arrays that are broadcast or read several times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp

from flambeau.core import dtype as dtypes
from flambeau.core.promotion import is_number, result_dtype

_HALVES = {dtypes.float16.numpy, dtypes.bfloat16.numpy}


def is_half(array: Any) -> bool:
    """Whether an array is of float16 or bfloat16."""
    return getattr(array, "dtype", None) in _HALVES


def single(array: Any) -> Any:
    """An array of half precision in single precision; anything else as it is."""
    return array.astype(jnp.float32) if is_half(array) else array


def spread(array: Any, shape: tuple[int, ...]) -> Any:
    """``array`` broadcast to a shape, its gradient summed in single precision."""
    return jnp.broadcast_to(single(array), shape).astype(array.dtype)


def half_of(operands: Sequence[Any], promoting: bool) -> Any:
    """The 16-bit dtype that an operator of these operands gives, or ``None``.

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


def widened(operands: Sequence[Any]) -> list[Any]:
    """`single` of each array among ``operands``."""
    return [tuple(widened(each)) if isinstance(each, tuple) else single(each) for each in operands]


def narrowed(results: Any, to: Any) -> Any:
    """``results`` with arrays of single precision rounded to the dtype ``to``."""
    if isinstance(results, tuple):
        return tuple(narrowed(each, to) for each in results)
    return results.astype(to) if results.dtype == jnp.float32 else results


def _tensors(operands: Sequence[Any]) -> Iterator[Any]:
    for each in operands:
        if isinstance(each, tuple):
            yield from _tensors(each)
        elif hasattr(each, "dtype") and not is_number(each):
            yield each
