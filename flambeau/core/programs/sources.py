"""A digest of flambeau's own files: an edited flambeau never runs the programs of the old one.

Reading all files takes as long as loading a few programs, so the digest is cached on disk together
with each file's size and times. The ctime changes with every change to a file and, unlike the
mtime, cannot be set back.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from flambeau.core.programs import private_files

# A file that changed within this many nanoseconds may change again without a new ctime.
_UNSETTLED = 2 * 10**9

_DIGEST = 20

# The maximum size of a note.
_MOST = 1024


def digest_of(root: str, note: Path | None) -> str:
    """A digest of the names and the contents of all Python files under ``root``.

    Args:
        root: A folder.
        note: The file that caches the digest for the next process; ``None`` to read all files.
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
    """A digest of the files' sizes and times; ``None`` if these are not reliable."""
    # Windows has no ctime; in the images of read-only file systems the image's maker sets it.
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
    """The cached digest for these sizes and times."""
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
    """Replace the note atomically; do nothing if it cannot be written."""
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=note.parent, prefix="writing-")
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(name, note)


def _hashed(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_DIGEST).hexdigest()
