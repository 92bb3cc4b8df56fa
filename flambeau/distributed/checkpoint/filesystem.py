"""PyTorch's classes for the location of a checkpoint: its reader reads every form."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

__all__ = [
    "FileSystemReader", "FileSystemWriter", "HuggingFaceStorageReader", "HuggingFaceStorageWriter",
]  # fmt: skip


class FileSystemWriter:
    """The folder that `save` writes to, in the form of PyTorch's ``distributed.checkpoint``.

    Args:
        path: The folder.
        options: Accepted for compatibility.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self.path = Path(path)


class FileSystemReader:
    """The folder, or file, that `load` reads from.

    Args:
        path: The folder.
        options: Accepted for compatibility.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self.path = Path(path)


class HuggingFaceStorageWriter:
    """The folder that `save` writes to, as safetensors files with an index, like without a writer.

    Args:
        path: The folder.
        options: Accepted for compatibility.
    """

    def __init__(self, path: str | os.PathLike[str], *args: Any, **options: Any) -> None:
        self.path = Path(path)


class HuggingFaceStorageReader(FileSystemReader):
    """The folder of safetensors files that `load` reads from."""


def path_of(checkpoint_id: Any, storage: Any, subject: str) -> Path:
    """The path given by one of the two arguments.

    Raises:
        ValueError: Neither is given.
        TypeError: ``checkpoint_id`` is not a path.
    """
    if checkpoint_id is None:
        checkpoint_id = getattr(storage, "path", None)
    if checkpoint_id is None:
        raise ValueError(f"{subject} needs a folder: pass checkpoint_id=")
    if not isinstance(checkpoint_id, str | os.PathLike):
        raise TypeError(f"checkpoint_id is a path, but got a {type(checkpoint_id).__name__}")
    return Path(checkpoint_id)
