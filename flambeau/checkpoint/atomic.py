"""Writing a file so that a crash leaves either the old content or the new one, never a part.

The new content goes to a temporary file in the same directory and is forced to the disk; then one
``os.replace`` puts it in the old file's place, which the operating system does entirely or not at
all; last, the directory itself is forced to the disk, so that the replacement outlives a power cut.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_path", "atomic_write"]

LONGEST_KEPT_NAME = 32


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file whose content becomes ``path``'s when the ``with`` block ends without error.

    If the block raises, or the process dies, ``path`` is as it was: with its old content, or
    absent. A raised error also removes the temporary file; a killed process leaves it behind, as
    ``.<name>.<random>.tmp`` beside ``path``: the first 32 characters of the name, and 16
    hexadecimal digits.

    A file that exists keeps its permissions, and a symbolic link stays one: the file that it
    points to is replaced.

    Args:
        path: the file to write; its directory must exist.

    Raises:
        IsADirectoryError: ``path`` is a directory.
        ValueError: ``path`` exists and is neither a file nor a directory (a device, a pipe).
        OSError: whatever the operating system refuses: ``FileNotFoundError`` for a missing
            directory, ``PermissionError``, a full disk.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder) / "model.bin"
    ...     with atomic_write(target) as file:
    ...         _ = file.write(b"weights")
    ...         print(target.exists())
    ...     print(target.read_bytes())
    False
    b'weights'
    """
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        yield file


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """As :func:`atomic_write`, for a writer that wants a path rather than an open file.

    The path that it gives is that of an empty file, which the block may write to or replace.
    """
    target = Path(os.path.realpath(path))
    mode = _permissions(target)
    temporary = target.with_name(_temporary_name(target.name))
    # Exclusive, so that nobody's file of the same name is ever written to. The umask applies to
    # this mode, and only the operating system can apply it without a race between threads.
    os.close(
        os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if mode is None else mode)
    )
    try:
        if mode is None:
            mode = stat.S_IMODE(temporary.stat().st_mode)
        else:
            temporary.chmod(mode)
        yield temporary
        temporary.chmod(mode)
        _force_to_disk(temporary, os.O_RDWR)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):
        _force_to_disk(target.parent, os.O_DIRECTORY)


def _permissions(target: Path) -> int | None:
    """The permissions of the file to be replaced, ``None`` when there is none."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{str(target)!r} is a directory; give the path of a file in it")
    if not stat.S_ISREG(mode):
        raise ValueError(
            f"{str(target)!r} is not a regular file, so it cannot be replaced by one; "
            "open it and write to the open file instead"
        )
    return stat.S_IMODE(mode)


def _temporary_name(name: str) -> str:
    # Cut, since the whole must fit in the 255 bytes that file systems allow.
    return f".{name[:LONGEST_KEPT_NAME]}.{secrets.token_hex(8)}.tmp"


def _force_to_disk(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
