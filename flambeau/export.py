"""Names of PyTorch's exporter, of which there is none: ``jax.export`` writes StableHLO."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau._absent import Absent as _Absent

__all__ = ["Dim", "ExportedProgram", "export", "load", "register_dataclass", "save"]

__getattr__: _Absent = _Absent(__name__)


class ExportedProgram:
    """The result type of PyTorch's exporter; nothing here is an instance."""


class Dim:
    """A size that may vary in an exported program; programs here are compiled for each size.

    Args:
        name: Its name.
        min: The least that it may be.
        max: The most that it may be.
    """

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.__name__ = name
        self.min = min
        self.max = max


def export(mod: Any, args: Any, kwargs: Any = None, **options: Any) -> NoReturn:
    """Refuse to export.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("export")


def save(ep: Any, f: Any, **options: Any) -> NoReturn:
    """Refuse: nothing is exported.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("save")


def load(f: Any, **options: Any) -> NoReturn:
    """Refuse: exported programs of PyTorch's cannot be run.

    Raises:
        NotImplementedError: Always.
    """
    _refuse("load")


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let trees of tensors take objects of a dataclass apart; see `utils._pytree`."""
    from flambeau.utils import _pytree

    _pytree.register_dataclass(cls)


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"export.{name}(): there is no exporter; jax.export.export makes StableHLO of a jitted "
        "function of arrays, such as one that calls flambeau.func.functional_call"
    )
