"""Checks of operators' arguments while they are traced: dimensions and dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.casting import cast, warn_of_lost_part
from flambeau.core.kernels.kinds import SIZES
from flambeau.core.support import errors
from flambeau.core.support.dtype import (
    BOOLEAN,
    COMPLEX,
    FLOATING,
    INTEGER,
    from_numpy_dtype,
    get_default_dtype,
)

# The dimensions that a reduction runs over: one, several, or ``None`` for all.
Dims: TypeAlias = Annotated[int | Sequence[int] | None, SIZES]

_WORDS = {BOOLEAN: "bool", INTEGER: "integer", FLOATING: "floating point", COMPLEX: "complex"}


def wrap_dim(dim: Any, ndim: int, name: str) -> int:
    """``dim`` counted from the front; a 0-d tensor accepts the dimensions 0 and -1.

    Raises:
        IndexError: There is no such dimension.
        TypeError: ``dim`` is not an integer.
    """
    if not hasattr(dim, "__index__") or isinstance(dim, bool):
        raise errors.TypeError(f"{name}(): dim must be an int, got {type(dim).__name__}")
    limit = max(ndim, 1)
    if not -limit <= dim < limit:
        raise errors.IndexError(
            f"{name}(): Dimension out of range (expected to be in range of [{-limit}, "
            f"{limit - 1}], but got {dim}), since the tensor has {ndim} dimensions"
        )
    return int(dim) % limit


def wrap_dims(dims: Any, ndim: int, name: str) -> tuple[int, ...]:
    """The dimensions that a reduction runs over, counted from the front.

    Args:
        dims: One dimension or several; ``None`` or an empty sequence means every dimension.
        ndim: The number of dimensions of the tensor.
        name: The operator, for messages.

    Raises:
        IndexError: There is no such dimension.
        RuntimeError: A dimension is named twice.
    """
    if dims is None:
        return tuple(range(ndim))
    if not isinstance(dims, list | tuple):
        dims = (dims,)
    if not dims:
        return tuple(range(ndim))
    wrapped = [wrap_dim(each, ndim, name) for each in dims]
    for each in wrapped:
        if wrapped.count(each) > 1:
            raise RuntimeError(f"{name}(): dimension {each} appears more than once in {dims}")
    return tuple(wrapped) if ndim else ()


def category(array: Any) -> int:
    """The category of an array's or a number's dtype, such as ``FLOATING``."""
    numpy_dtype = array.dtype if hasattr(array, "dtype") else np.result_type(array)
    return from_numpy_dtype(numpy_dtype).category


def allow(name: str, *arrays: Any, categories: tuple[int, ...]) -> None:
    """Raise unless every array's dtype is of one of ``categories``.

    Raises:
        NotImplementedError: One has another dtype.
    """
    for each in arrays:
        if category(each) not in categories:
            allowed = " and ".join(_WORDS[one] for one in categories)
            raise NotImplementedError(
                f"{name}() is not implemented for {from_numpy_dtype(each.dtype).name}, only for "
                f"{allowed} tensors; convert it with to() first"
            )


def needs_floating(name: str, *arrays: Any) -> None:
    """Raise unless every array is of a real floating point dtype."""
    allow(name, *arrays, categories=(FLOATING,))


def needs_inexact(name: str, *arrays: Any) -> None:
    """Raise unless every array is of a floating point or complex dtype."""
    allow(name, *arrays, categories=(FLOATING, COMPLEX))


def needs_numeric(name: str, *arrays: Any) -> None:
    """Raise if an array is bool."""
    allow(name, *arrays, categories=(INTEGER, FLOATING, COMPLEX))


def needs_ordered(name: str, *arrays: Any) -> None:
    """Raise if an array is complex, since complex numbers have no order."""
    allow(name, *arrays, categories=(BOOLEAN, INTEGER, FLOATING))


def needs_real_number(name: str, *arrays: Any) -> None:
    """Raise unless every array is integer or floating point."""
    allow(name, *arrays, categories=(INTEGER, FLOATING))


def needs_discrete(name: str, *arrays: Any) -> None:
    """Raise unless every array is bool or integer."""
    allow(name, *arrays, categories=(BOOLEAN, INTEGER))


def needs_integer(name: str, *arrays: Any) -> None:
    """Raise unless every array is of an integer dtype."""
    allow(name, *arrays, categories=(INTEGER,))


def same_dtype(name: str, *arrays: Any) -> None:
    """Raise unless all arrays are of one dtype.

    Raises:
        RuntimeError: The dtypes differ.
    """
    found = {from_numpy_dtype(each.dtype).name: None for each in arrays}
    if len(found) > 1:
        kinds = " and ".join(found)
        raise RuntimeError(f"{name}() needs tensors of one dtype, got {kinds}; convert one first")


def floating(*arrays: Any) -> tuple[Any, ...]:
    """``arrays``, with integers and bools converted to the default floating point dtype.

    JAX would convert 64-bit integers and Python floats to float64, PyTorch converts to the default
    dtype.
    """
    default = get_default_dtype().numpy
    return tuple(
        each if jnp.issubdtype(each.dtype, jnp.inexact) else cast(each, default) for each in arrays
    )


def cast_first(array: Any, to: Any) -> Any:
    """``array`` in the dtype in which the operator is to compute."""
    warn_of_lost_part(from_numpy_dtype(array.dtype), to)
    return cast(array, to.numpy)
