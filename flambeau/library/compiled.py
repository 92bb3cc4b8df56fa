"""Libraries of operators that are compiled for PyTorch."""

from __future__ import annotations

from os import PathLike
from typing import NoReturn


def load_library(path: str | PathLike[str]) -> NoReturn:
    """Fail as PyTorch does for a library that is compiled for another version.

    Packages catch the error, and go on without the operators of their own.

    Raises:
        OSError: Always.
    """
    raise OSError(
        f"cannot load {path}: its operators are compiled for PyTorch; flambeau.library.custom_op "
        "makes operators of Python functions"
    )
