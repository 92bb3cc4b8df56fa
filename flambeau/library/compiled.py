"""Libraries of operators that are compiled against PyTorch."""

from __future__ import annotations

from os import PathLike
from typing import NoReturn


def load_library(path: str | PathLike[str]) -> NoReturn:
    """Raise PyTorch's error for a library built for another version.

    Packages catch the error and use their Python fallbacks.

    Raises:
        OSError: Always.
    """
    raise OSError(
        f"cannot load {path}: its operators are compiled for PyTorch; flambeau.library.custom_op "
        "makes operators of Python functions"
    )
