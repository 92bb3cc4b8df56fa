"""Settings of libraries, which are stored, exchanged and restored; XLA applies some of them.

``cudnn.deterministic = True`` is a requirement: a warning is issued if GPUs cannot meet it; see
`use_deterministic_algorithms`. ``allow_tf32 = False`` and ``fp32_precision = "ieee"`` call
`set_float32_matmul_precision`. The other settings have no effect: XLA chooses its libraries and
algorithms, and always autotunes them on GPUs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

from flambeau.core.support.warning import warn
from flambeau.numerics import (
    get_float32_matmul_precision,
    gpus_are_deterministic,
    set_float32_matmul_precision,
)

__all__: list[str] = []

#: PyTorch's names of float32 precisions, and the corresponding `set_float32_matmul_precision`.
PRECISIONS = {"ieee": "highest", "tf32": "high", "bf16": "medium"}


def exchange(holder: Any, **values: Any) -> tuple[Any, ...]:
    """Set the attributes of a module whose values are not ``None``.

    Returns:
        The previous values of all of them.
    """
    before = tuple(getattr(holder, name) for name in values)
    for name, value in values.items():
        if value is not None:
            setattr(holder, name, value)
    return before


@contextlib.contextmanager
def changed(holder: Any, **values: Any) -> Iterator[None]:
    """A context manager under which attributes of a module have other values."""
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
    """Check that a flag is ``True`` or ``False``.

    Raises:
        RuntimeError: It is not.
    """
    if not isinstance(value, bool | int):
        raise RuntimeError(f"{name} expects a bool, but got {type(value).__name__}")


def check_precision(value: Any) -> None:
    """Check the name of a float32 precision.

    Raises:
        RuntimeError: There is no such precision.
    """
    if value != "none" and value not in PRECISIONS:
        raise RuntimeError(f"Unknown precision: {value}; there are none, {', '.join(PRECISIONS)}")


def allow(value: str) -> None:
    """Raise the precision of products to the one that a setting requires.

    All products and convolutions have one precision, so a permission has no effect.
    """
    check_precision(value)
    if value == "ieee":
        set_float32_matmul_precision("highest")


class Precision:
    """A stored precision setting; ``"none"`` if it was not set.

    ``"ieee"`` is a requirement, which sets full precision for all float32 products; the others are
    permissions.
    """

    def __init__(self) -> None:
        self._chosen = "none"

    @property
    def fp32_precision(self) -> str:
        """The precision of float32 products: ``"none"``, ``"ieee"``, ``"tf32"`` or ``"bf16"``."""
        return self._chosen

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        allow(value)
        self._chosen = value


class Library(ModuleType):
    """A module of settings, some of which are checked or applied; see `flambeau._answers`."""

    def __setattr__(self, name: str, value: Any) -> None:
        library = self.__name__.rpartition(".")[2]
        if name in ("benchmark", "deterministic", "enabled") or (library, name) == _CUDNN_TF32:
            check_flag(f"{library}.{name}", value)
        if (library, name) == ("cudnn", "deterministic") and value and not gpus_are_deterministic():
            warn(
                "cudnn.deterministic: programs on GPUs are deterministic only if XLA_FLAGS "
                "contains --xla_gpu_deterministic_ops=true when JAX starts",
            )
        if name == "fp32_precision":
            allow(value)
        elif name == "allow_tf32" and value is not None and not value:
            allow("ieee")
        elif name == "engine" and value not in self.supported_engines:
            raise RuntimeError(
                f"{value} is not a valid value for quantized engine: there are no quantized "
                "tensors; .to(flambeau.bfloat16) halves the memory of a model"
            )
        super().__setattr__(name, value)


_CUDNN_TF32 = ("cudnn", "allow_tf32")


def set_flags(module: ModuleType, given: dict[str, Any]) -> tuple[Any, ...]:
    """Set the values that are not ``None``, named with an underscore; returns the previous ones."""
    return exchange(module, **{name[1:]: value for name, value in given.items()})


def flags(module: ModuleType, given: dict[str, Any]) -> AbstractContextManager[None]:
    """A context manager under which the settings have these values."""
    return changed(module, **given)
