"""Writing a file so that a crash leaves either the old content or the new, never a part.

The new content goes to a temporary file in the same directory and is forced to the disk; then one
``os.replace`` puts it in the old file's place, which the operating system does entirely or not at
all; last, the directory itself is forced to the disk, so that the replacement outlives a power cut.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, which has no such locks.
    fcntl = None

__all__ = ["atomic_path", "atomic_write", "remove_temporaries"]

LONGEST_KEPT_NAME = 32

#: A temporary file that no process is writing counts as left behind after this many seconds.
ABANDONED_AFTER = 3600


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file whose content becomes ``path``'s when the ``with`` block ends without error.

    If the block raises, or the process dies, ``path`` is unchanged: it has its old content, or is
    absent. A raised error also removes the temporary file; a killed process leaves it behind, as
    ``.<name>.<random>.tmp`` beside ``path``: the first 32 characters of the name, and 16
    hexadecimal digits. The next write to ``path`` removes temporary files that were not written to
    for an hour; on Windows they stay.

    An existing file keeps its permissions. A symbolic link stays a link: the file that it points to
    is replaced.

    Args:
        path: the file to write; its directory must exist.

    Raises:
        IsADirectoryError: ``path`` is a directory.
        ValueError: ``path`` exists and is neither a file nor a directory (a device, a pipe).
        OSError: whatever the operating system refuses: ``FileNotFoundError`` for a missing
            directory, ``PermissionError``, a full disk.

    >>> from pathlib import Path
    >>> from flambeau.checkpoint import atomic_write
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
    """Like :func:`atomic_write`, for a writer that needs a path rather than an open file.

    The path is that of an empty file, which the block may write to or replace.
    """
    target = Path(os.path.realpath(path))
    mode = _permissions(target)
    _remove_abandoned(target)
    temporary = target.with_name(_temporary_name(target.name))
    # The umask applies to this mode, and only the operating system can apply it without a race
    # between threads.
    descriptor = _opened(temporary, 0o666 if mode is None else mode)
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
    finally:
        if descriptor is not None:
            os.close(descriptor)
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
    # Shortened, since the whole must fit in the 255 bytes that file systems allow.
    return f".{name[:LONGEST_KEPT_NAME]}.{secrets.token_hex(8)}.tmp"


def _opened(temporary: Path, mode: int) -> int | None:
    """A new file, locked until its descriptor is closed; ``None`` if it cannot be locked."""
    try:
        # Exclusive, so that no existing file of the same name is ever written to.
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        if _is_locked(descriptor):
            return descriptor
        os.close(descriptor)
        return None
    except FileExistsError:
        raise
    except BaseException:  # An interrupt.
        temporary.unlink(missing_ok=True)
        raise


def _is_locked(descriptor: int) -> bool:
    """Lock a file; ``False`` if another process has locked it, or there are no locks here."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_abandoned(target: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote ``target``."""
    remove_temporaries(target.parent, re.escape(target.name[:LONGEST_KEPT_NAME]), ABANDONED_AFTER)


def remove_temporaries(folder: Path, names: str, age: float) -> None:
    """Remove temporary files that no process is writing.

    Args:
        folder: The folder.
        names: A regular expression of the first 32 characters of the written files' names.
        age: Seconds for which a file has not been written to.
    """
    if fcntl is None:
        return
    pattern = re.compile(rf"[.](?:{names})[.][0-9a-f]{{16}}[.]tmp")
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for each in entries:
            if pattern.fullmatch(each.name):
                _remove_if_abandoned(each, age)


def _remove_if_abandoned(entry: os.DirEntry[str], age: float) -> None:
    with contextlib.suppress(OSError):
        if time.time() - entry.stat(follow_symlinks=False).st_mtime < age:
            return
        descriptor = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if _is_locked(descriptor):
                os.unlink(entry.path)
        finally:
            os.close(descriptor)


def _force_to_disk(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
