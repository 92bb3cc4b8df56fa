"""Reductions of losses by their numbers, and by the arguments that PyTorch deprecates."""

from __future__ import annotations

from flambeau.core.support.warning import warn
from flambeau.nn.functional._reductions import flagged

_NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The number of a reduction.

    Raises:
        ValueError: There is no such reduction.
    """
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _NUMBERS[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> str:
    """The reduction that the deprecated flags mean; ``None`` stands for true."""
    found = flagged(size_average, reduce)
    if emit_warning:
        warn(f"size_average and reduce are deprecated; pass reduction={found!r} instead")
    return found


def legacy_get_enum(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True
) -> int:
    """The number of what `legacy_get_string` gives."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
