"""Settings that are kept, exchanged and put back, whether XLA follows them or not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau.numerics import get_float32_matmul_precision, set_float32_matmul_precision

__all__: list[str] = []

#: PyTorch's words for how float32 is multiplied, and those of `set_float32_matmul_precision`.
PRECISIONS = {"ieee": "highest", "tf32": "high", "bf16": "medium"}


def exchange(holder: Any, **values: Any) -> tuple[Any, ...]:
    """Set attributes of a module, but those for which ``None`` is given.

    Returns:
        What they all were before.
    """
    before = tuple(getattr(holder, name) for name in values)
    for name, value in values.items():
        if value is not None:
            setattr(holder, name, value)
    return before


@contextlib.contextmanager
def changed(holder: Any, **values: Any) -> Iterator[None]:
    """A block in which attributes of a module have other values."""
    precision = get_float32_matmul_precision()
    before = exchange(holder, **values)
    try:
        yield
    finally:
        for name, value in zip(values, before, strict=True):
            setattr(holder, name, value)
        if get_float32_matmul_precision() != precision:
            set_float32_matmul_precision(precision)


def check_flag(name: str, value: Any) -> None:
    """Check that a switch is set to ``True`` or ``False``.

    Raises:
        RuntimeError: It is not.
    """
    if not isinstance(value, bool | int):
        raise RuntimeError(f"{name} expects a bool, but got {type(value).__name__}")


def check_precision(value: Any) -> None:
    """Check a word for how float32 is multiplied.

    Raises:
        RuntimeError: There is no such word.
    """
    if value != "none" and value not in PRECISIONS:
        raise RuntimeError(f"Unknown precision: {value}; there are none, {', '.join(PRECISIONS)}")


def allow(value: str) -> None:
    """See to it that products are as exact as a setting for some of them demands.

    All products and convolutions have one precision, so a permission changes nothing.
    """
    check_precision(value)
    if value == "ieee":
        set_float32_matmul_precision("highest")


class Precision:
    """The precision of some products, as it was set: ``"none"`` if it was not.

    ``"ieee"`` is a demand, for which all products of float32 are exact; the others are permissions.
    """

    def __init__(self) -> None:
        self._chosen = "none"

    @property
    def fp32_precision(self) -> str:
        """How float32 is multiplied: ``"none"``, ``"ieee"``, ``"tf32"`` or ``"bf16"``."""
        return self._chosen

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        allow(value)
        self._chosen = value
