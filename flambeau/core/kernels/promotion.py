"""PyTorch's type promotion, computed from the abstract values of an operator's operands.

An operand is a dimensioned tensor, a 0-d tensor or a Python number, in that order of priority: a
lower-priority operand changes the result only when its category (bool, integer, floating, complex)
is higher. JAX marks Python numbers as weakly typed, and no tensor ever is, so the kind of an
operand can be read off its abstract value when an operator is traced.

Rules: https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.casting import cast
from flambeau.core.kernels.kinds import Operand
from flambeau.core.support import dtype as dtypes
from flambeau.core.support import errors
from flambeau.core.support.dtype import BOOLEAN, COMPLEX, FLOATING, INTEGER, dtype, from_numpy_dtype
from flambeau.core.types import DTypeLike

_ZEROS = {BOOLEAN: False, INTEGER: 0, FLOATING: 0.0, COMPLEX: 0j}


@functools.cache
def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that both convert to without changing category.

    Raises:
        TypeError: Neither converts to the other, as for ``uint16`` and ``int32``.
    """
    type1 = _as_dtype("promote_types", "type1", type1)
    type2 = _as_dtype("promote_types", "type2", type2)
    if type1 is type2:
        return type1
    low, high = sorted((type1, type2), key=lambda each: each.category)
    if high.category == COMPLEX:
        wide = high.itemsize == 16 or (
            low.itemsize == (16 if low.is_complex else 8) and (low.category >= FLOATING)
        )
        return dtypes.complex128 if wide else dtypes.complex64
    if low.category < high.category:
        return high
    if high.category == FLOATING:
        if low.itemsize == high.itemsize:
            if low.itemsize == 1:
                raise errors.TypeError(f"promotion of {low!r} and {high!r} is not defined")
            return dtypes.float32  # float16 and bfloat16: neither holds the other
        if low.itemsize == 1 or high.itemsize == 1:
            raise errors.TypeError(
                f"promotion of {low!r} and {high!r} is not defined; convert one first"
            )
        return max(low, high, key=lambda each: each.itemsize)
    return _promote_integers(low, high)


def _promote_integers(type1: dtype, type2: dtype) -> dtype:
    if type1.is_signed == type2.is_signed:
        return max(type1, type2, key=lambda each: each.itemsize)
    unsigned, signed = (type2, type1) if type1.is_signed else (type1, type2)
    if unsigned is not dtypes.uint8:
        raise errors.TypeError(
            f"promotion of {type1!r} and {type2!r} is not defined: "
            "among unsigned types only uint8 mixes with signed ones; convert one first"
        )
    return dtypes.int16 if signed is dtypes.int8 else signed


def _number_dtype(category: int) -> dtype:
    if category == BOOLEAN:
        return dtypes.bool
    if category == INTEGER:
        return dtypes.int64
    default = dtypes.get_default_dtype()
    return default if category == FLOATING else default.to_complex()


def result_dtype(operands: tuple[Operand, ...]) -> dtype:
    """The dtype of an operator's result.

    Args:
        operands: Things with ``dtype`` (NumPy's), ``ndim`` and optionally ``weak_type``, or Python
            numbers.

    Returns:
        The promoted dtype under PyTorch's rules.
    """
    by_priority: list[dtype | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, bool | int | float | complex | np.generic):
            rank, found = 2, _number_dtype(from_numpy_dtype(np.result_type(operand)).category)
        else:
            found = from_numpy_dtype(operand.dtype)
            if _is_weak(operand):
                rank, found = 2, _number_dtype(found.category)
            else:
                rank = 0 if operand.ndim else 1
        seen = by_priority[rank]
        by_priority[rank] = found if seen is None else promote_types(seen, found)
    result = None
    for found in by_priority:
        if found is None:
            continue
        if result is None:
            result = found
        elif found.category > result.category:
            # A complex number raises a real tensor to the complex type of the same precision.
            both_inexact = found.category == COMPLEX and result.category == FLOATING
            result = result.to_complex() if both_inexact else found
    if result is None:
        raise errors.ValueError("type promotion needs at least one operand")
    return result


def check_broadcast(*operands: Operand) -> None:
    """Raise unless the shapes of traced operands broadcast to one.

    Raises:
        RuntimeError: Two sizes of the same dimension differ and neither is 1.
    """
    common: dict[int, tuple[int, Operand]] = {}
    ndim = max(len(np.shape(operand)) for operand in operands)
    for operand in operands:
        shape = list(np.shape(operand))
        for dim, size in enumerate(shape, start=ndim - len(shape)):
            if size == 1:
                continue
            before = common.setdefault(dim, (size, shape))
            if before[0] != size:
                raise RuntimeError(
                    f"shapes {before[1]} and {shape} do not broadcast: The size of tensor a "
                    f"({before[0]}) must match the size of tensor b ({size}) at non-singleton "
                    f"dimension {dim}, or one of them must be 1"
                )


def _check(operands: tuple[Operand, ...]) -> None:
    if all(map(is_number, operands)):
        kinds = " and ".join(str(np.result_type(each)) for each in operands)
        raise errors.TypeError(f"at least one operand must be a Tensor, got numbers only ({kinds})")
    check_broadcast(*operands)


def is_number(operand: object) -> bool:
    """Whether an operand of a traced operator is a Python number rather than a tensor."""
    return isinstance(operand, bool | int | float | complex) or _is_weak(operand)


def as_tensor(number: Operand) -> jax.Array:
    """A number as a 0-d array, of the dtype of a tensor made from that number."""
    return jnp.asarray(number, result_dtype((number,)).numpy)


def as_number(operand: Operand) -> Operand:
    """A number that promotes like the operand's category: the operand itself, or 0."""
    return operand if is_number(operand) else _ZEROS[from_numpy_dtype(operand.dtype).category]


def _is_weak(operand: object) -> bool:
    return getattr(operand, "weak_type", False)


def promote(*operands: Operand) -> tuple[jax.Array, ...]:
    """Cast traced operands to their common dtype, after checking that their shapes broadcast.

    Raises:
        RuntimeError: The shapes do not broadcast.
        TypeError: All operands are numbers.
    """
    _check(operands)
    to = result_dtype(operands).numpy
    return tuple(_converted(operand, to) for operand in operands)


def _converted(operand: Operand, to: DTypeLike) -> jax.Array:
    is_mask = getattr(operand, "dtype", None) == np.bool_
    return cast(operand, to) if is_mask else jnp.asarray(operand, to)


def promote_to_float(*operands: Operand) -> tuple[jax.Array, ...]:
    """Like `promote`, with integers and bools raised to the default floating dtype."""
    _check(operands)
    common = result_dtype(operands)
    if common.category < FLOATING:
        common = dtypes.get_default_dtype()
    return tuple(_converted(operand, common.numpy) for operand in operands)


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether an in-place operator may store values of the dtype ``from_`` in a ``to`` tensor."""
    from_, to = _as_dtype("can_cast", "from_", from_), _as_dtype("can_cast", "to", to)
    return from_.category <= to.category


def _as_dtype(function: str, name: str, value: object) -> dtype:
    found = dtypes.of_python_type(value)
    if not isinstance(found, dtype):
        raise TypeError(f"{function}(): {name} must be a dtype, got {value!r:.80}")
    return found


def result_type(*operands: Operand) -> dtype:
    """The dtype of an operator's result for these tensors and numbers."""
    return result_dtype(tuple(_described(each) for each in operands))


class _Described(NamedTuple):
    """The properties of a tensor that promotion reads."""

    dtype: np.dtype
    ndim: int


def _described(operand: Operand) -> Operand:
    if isinstance(operand, bool | int | float | complex | np.generic):
        return operand
    if not hasattr(operand, "dtype"):
        kind = type(operand).__name__
        raise TypeError(f"result_type() takes tensors and numbers, got {kind}: {operand!r:.80}")
    return _Described(operand.dtype.numpy, operand.ndim)
