"""PyTorch's names for where a checkpoint is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

__all__ = ["FileSystemReader", "FileSystemWriter"]


class FileSystemWriter:
    """The folder that `save` writes to.

    Args:
        path: The folder.
        options: Accepted for PyTorch's sake.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self.path = Path(path)


class FileSystemReader:
    """The folder, or file, that `load` reads from.

    Args:
        path: The folder.
        options: Accepted for PyTorch's sake.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self.path = Path(path)


def path_of(checkpoint_id: Any, storage: Any, subject: str) -> Path:
    """The path that one of the two names.

    Raises:
        ValueError: Neither does.
        TypeError: ``checkpoint_id`` is no path.
    """
    if checkpoint_id is None:
        checkpoint_id = getattr(storage, "path", None)
    if checkpoint_id is None:
        raise ValueError(f"{subject} needs a folder: pass checkpoint_id=")
    if not isinstance(checkpoint_id, str | os.PathLike):
        raise TypeError(f"checkpoint_id is a path, but got a {type(checkpoint_id).__name__}")
    return Path(checkpoint_id)
