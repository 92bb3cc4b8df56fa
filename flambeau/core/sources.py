"""A digest of flambeau's own files, by which an edited flambeau never runs a program of the old.

Reading all files takes as long as loading a few programs, so the digest is noted on disk beside
what the file system says of each file. The ctime changes with whatever happens to a file and,
unlike the mtime, cannot be set back.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from flambeau.core import private_files

# Files that have changed within this many nanoseconds may change once more without another ctime.
_UNSETTLED = 2 * 10**9

_DIGEST = 20

# A note is shorter.
_MOST = 1024


def digest_of(root: str, note: Path | None) -> str:
    """A digest of the names and the contents of all Python files under ``root``.

    Args:
        root: A folder.
        note: The file that notes the digest for the next process; ``None`` to read all files.
    """
    files = sorted(_files_under(root), key=lambda each: each.path)
    facts = _facts(root, files) if note is not None else None
    if note is None or facts is None:
        return _read_all(root, files)
    known = _noted(note, facts)
    if known is None:
        known = _read_all(root, files)
        _write(note, f"{facts} {known}")
    return known


def _files_under(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for each in entries:
            if each.name.endswith(".py"):
                yield each
            elif each.name != "__pycache__" and each.is_dir():
                yield from _files_under(each.path)


def _facts(root: str, files: list[os.DirEntry[str]]) -> str | None:
    """A digest of the files' sizes and times; ``None`` where these are not enough."""
    # Windows has no ctime, and in the images of read-only file systems it is what their maker says.
    if os.name != "posix" or os.statvfs(root).f_flag & os.ST_RDONLY:
        return None
    found = [(each.path, each.stat()) for each in files]
    if max(facts.st_ctime_ns for _, facts in found) > time.time_ns() - _UNSETTLED:
        return None
    return _hashed(
        repr([
            (path, each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns)
            for path, each in found
        ]).encode()
    )  # fmt: skip


def _noted(note: Path, facts: str) -> str | None:
    """The digest that is noted for these facts."""
    try:
        noted, known = (private_files.read(note, _MOST) or b"").decode().split()
    except ValueError:
        return None
    return known if noted == facts and len(known) == 2 * _DIGEST else None


def _read_all(root: str, files: list[os.DirEntry[str]]) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for each in files:
        with open(each.path, "rb", buffering=0) as file:
            content = file.read()
        digest.update(f"{each.path[len(root) :]} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def _write(note: Path, text: str) -> None:
    """Replace the note; a reader meets all of it or the old one. Where it cannot be, it is not."""
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=note.parent, prefix="writing-")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(name, note)


def _hashed(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_DIGEST).hexdigest()
