"""`torch._prims_common`: queries about operators, dtypes and shapes."""

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.core.support import dtype as _dtypes
from flambeau.types import Number

__all__ = [
    "Number", "alert_not_deterministic", "is_boolean_dtype", "is_complex_dtype",
    "is_contiguous_or_false", "is_float_dtype", "is_integer_dtype",
]  # fmt: skip

__getattr__ = _Absent("flambeau._prims_common")


def alert_not_deterministic(caller: str) -> None:
    """Do nothing: XLA's programs are deterministic under `use_deterministic_algorithms`."""


def is_boolean_dtype(dtype: Any) -> bool:
    """Whether a dtype is ``bool``."""
    return dtype.category == _dtypes.BOOLEAN


def is_integer_dtype(dtype: Any) -> bool:
    """Whether a dtype is an integer dtype; ``bool`` is not."""
    return dtype.category == _dtypes.INTEGER


def is_float_dtype(dtype: Any) -> bool:
    """Whether a dtype is a real floating-point dtype."""
    return dtype.is_floating_point


def is_complex_dtype(dtype: Any) -> bool:
    """Whether a dtype is complex."""
    return dtype.is_complex


def is_contiguous_or_false(a: Any, memory_format: Any = None) -> bool:
    """Whether a tensor is contiguous; shapes are always known here."""
    return a.is_contiguous() if memory_format is None else a.is_contiguous(memory_format)
