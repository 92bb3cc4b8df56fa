"""Compiled programs on disk, so that the next run of a script starts warm."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import tempfile
from pathlib import Path

from flambeau.core.devices.compiler import cores
from flambeau.core.programs import private_files
from flambeau.core.support.warning import warn

#: The bytes that the folder may hold if ``FLAMBEAU_CACHE_SIZE`` is not set.
DEFAULT_SIZE = 2 * 2**30

# The share of its limit that a folder keeps after a sweep, so that not every program triggers one.
_LEFT = 0.75

# How often all files are listed while as many bytes are written as the folder holds.
_LOOKS = 64

_SUFFIX = ".program"
_DIGEST = 16
_UNITS = {"": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


class Store:
    """A folder of programs that evicts the least recently used.

    A file is written under a temporary name and then renamed, so that readers never see half a
    file. It begins with a digest of its key and content: a file that is damaged, or belongs to
    another key or user, counts as missing and is replaced. Processes may share a folder. A program
    that cannot be written is dropped, with one warning.

    Args:
        folder: Where the files are; made when the first is written.
        size: The maximum of their total size in bytes.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.size = size
        self.full = False
        self._taken: int | None = None

    def get(self, key: str) -> bytes | None:
        """The program stored under ``key``; ``None`` if there is none, or it is damaged."""
        path = self.folder / f"{key}{_SUFFIX}"
        content = private_files.read(path, self.size)
        if content is None or _digest(key, content[_DIGEST:]) != content[:_DIGEST]:
            self.discard(key)
            return None
        return content[_DIGEST:]

    def put(self, key: str, program: bytes) -> None:
        """Store a program under ``key``, atomically for readers."""
        if self.full:
            return
        content = _digest(key, program) + program
        path = self.folder / f"{key}{_SUFFIX}"
        try:
            private_files.prepare(self.folder)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix="writing-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.replace(name, path)
            except BaseException:
                # An interrupt may arrive after the rename.
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
            if self._taken is not None:
                self._taken += len(content)
            elif _is_due(content, len(content), self.size):
                self._taken = self._measured()
            if self._taken is not None and self._taken > self.size:
                self._sweep()
        except OSError as error:
            if path.is_dir():
                return  # Another user's file: it blocks this program only.
            self.full: bool = True
            _warn(str(error))

    def size_of(self, key: str) -> int:
        """The size in bytes of the program under ``key``; 0 if there is none."""
        try:
            return (self.folder / f"{key}{_SUFFIX}").lstat().st_size
        except OSError:
            return 0

    def discard(self, key: str) -> None:
        """Delete the program under ``key``."""
        with contextlib.suppress(OSError):
            (self.folder / f"{key}{_SUFFIX}").unlink()

    def _files(self) -> list[tuple[float, int, str]]:
        """For each file the time of its last use, its size and its path."""
        found = []
        with os.scandir(self.folder) as entries:
            for each in entries:
                with contextlib.suppress(OSError):
                    facts = each.stat(follow_symlinks=False)
                    found.append((facts.st_mtime, facts.st_size, each.path))
        return found

    def _measured(self) -> int:
        return sum(size for _, size, _ in self._files())

    def _sweep(self) -> None:
        """Delete the least recently used files until a part of the size is free."""
        files = sorted(self._files())
        taken = sum(size for _, size, _ in files)
        for _, size, path in files:
            if taken <= self.size * _LEFT:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
                taken -= size
        self._taken = taken


def _is_due(digest: bytes, written: int, size: int) -> bool:
    """Whether to list all files after adding ``written`` of ``size`` bytes.

    Listing 30,000 files takes a tenth of a second, so it is done about once for each 64th of the
    size, over all processes: the digest serves as a random number.
    """
    return int.from_bytes(digest[:4], "big") * size < _LOOKS * written * 2**32


@functools.cache
def store() -> Store | None:
    """The user's store of programs; ``None`` if nothing is to be stored.

    ``FLAMBEAU_CACHE=0`` keeps nothing, ``FLAMBEAU_CACHE_SIZE`` (bytes, or such as ``500MB``) limits
    the folder's size. Without a writable folder of this user, nothing is stored and a warning is
    given.
    """
    if os.environ.get("FLAMBEAU_CACHE") == "0":
        return None
    try:
        chosen = folder()
        for each in (chosen.parent, chosen):
            private_files.prepare(each)
        if not os.access(chosen, os.W_OK):
            raise PermissionError(f"{chosen} is read-only")
    except (OSError, RuntimeError) as error:
        _warn(str(error))
        return None
    return Store(chosen, size_from(os.environ.get("FLAMBEAU_CACHE_SIZE")))


def size_from(text: str | None) -> int:
    """The number of bytes in ``FLAMBEAU_CACHE_SIZE``.

    >>> from flambeau.core.programs.store import size_from
    >>> size_from("500MB")
    524288000

    Raises:
        ValueError: It is not a number of bytes.
    """
    if not text:
        return DEFAULT_SIZE
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]B)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise ValueError(
            f"FLAMBEAU_CACHE_SIZE must be a number of bytes, or of KB, MB or GB, got {text!r}"
        )
    return int(float(found[1]) * _UNITS[(found[2] or "").upper()])


def folder() -> Path:
    """The folder of the programs of this kind of machine, in the user's cache.

    XLA compiles for the number of cores that it sees and for their instruction sets: a program
    compiled on one core would always run on one core, and a program from a newer machine with the
    same home folder would not run at all.
    """
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    machine = hashlib.sha256(_instructions().encode()).hexdigest()[:8]
    return Path(root) / "flambeau" / f"programs-{machine}-{cores()}"


def note_for(text: str) -> Path:
    """The file of a note about ``text``, outside the folders of programs, which are swept."""
    name = hashlib.blake2b(text.encode(), digest_size=_DIGEST).hexdigest()
    return folder().parent / f"sources-{name}"


def _instructions() -> str:
    """A text that identifies the processor's instruction sets."""
    try:
        with open("/proc/cpuinfo") as file:
            # The features of the first processor only; reading all would take long on many cores.
            for line in file:
                if line.startswith(("flags", "Features")):
                    return line
    except OSError:
        pass  # Not Linux.
    return platform.machine()


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST, key=key[:64].encode()).digest()


def _warn(reason: str) -> None:
    warn(
        f"compiled programs are not kept for the next run: {reason.rstrip('.')}. Set "
        "XDG_CACHE_HOME to a folder that can be written to, or FLAMBEAU_CACHE=0 for no cache",
        RuntimeWarning,
    )
