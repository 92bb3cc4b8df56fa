"""Files and folders that no other user can write to, as SSH requires of its keys.

Anyone who can write to the folder of compiled programs controls the code that this process runs.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

# A link is refused, and opening a pipe without a writer does not block. Windows lacks both flags.
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def prepare(folder: Path) -> None:
    """Make a folder and its missing parents, accessible to this user alone.

    If it is this user's and others can write to it, their permission is removed.

    Raises:
        PermissionError: It is another user's, or a link.
        OSError: It cannot be made.
    """
    if not os.path.lexists(folder):
        if not folder.parent.exists():
            prepare(folder.parent)
        with contextlib.suppress(FileExistsError):  # Another process was faster.
            folder.mkdir(mode=0o700)
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise PermissionError(f"{folder} is a link, and may lead to another user's files")
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is not a folder")
    if not _is_own(found):
        raise PermissionError(
            f"{folder} belongs to another user (number {found.st_uid}), whose programs are not run"
        )
    if os.name == "posix" and found.st_mode & _OTHERS_WRITE:
        folder.chmod(0o700)


def read(path: Path, most: int) -> bytes | None:
    """The content of a file that only this user can write to; marks it as just used.

    ``None`` if there is no such file: nothing, a link, a device, another user's file, one that
    others can write to, or one of more than ``most`` bytes.
    """
    try:
        handle = os.open(path, _FLAGS | getattr(os, "O_BINARY", 0))
    except OSError:
        return None
    try:
        found = os.fstat(handle)
        closed = os.name != "posix" or not found.st_mode & _OTHERS_WRITE
        if not (stat.S_ISREG(found.st_mode) and _is_own(found) and closed):
            return None
        if found.st_size > most:
            return None
        with open(handle, "rb", buffering=0, closefd=False) as file:
            content = file.read(found.st_size)
        os.utime(handle if os.utime in os.supports_fd else path)
    except OSError:
        return None
    finally:
        os.close(handle)
    return content


def _is_own(found: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
