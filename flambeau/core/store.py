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

from flambeau.core import private_files
from flambeau.core.compiler import cores
from flambeau.core.warning import warn

#: How many bytes the folder holds where ``FLAMBEAU_CACHE_SIZE`` does not say.
DEFAULT_SIZE = 2 * 2**30

# The share of its bound that a folder keeps after a sweep, so that not every program sweeps it.
_LEFT = 0.75

# How often all files are looked at while as many bytes are written as the folder holds.
_LOOKS = 64

_SUFFIX = ".program"
_DIGEST = 16
_UNITS = {"": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


class Store:
    """A folder of programs, least recently used first out.

    A file is written under another name and then renamed, so that no reader meets half of one, and
    begins with a digest of its key and content: one that is damaged, or is another key's or
    another user's, counts as missing, and is replaced.
    Processes may share a folder. What cannot be written is not kept, which one warning says.

    Args:
        folder: Where the files are; made when the first is written.
        size: How many bytes they may take together.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.size = size
        self.full = False
        self._taken: int | None = None

    def get(self, key: str) -> bytes | None:
        """The program kept under ``key``; ``None`` if there is none, or it is damaged."""
        path = self.folder / f"{key}{_SUFFIX}"
        content = private_files.read(path, self.size)
        if content is None or _digest(key, content[_DIGEST:]) != content[:_DIGEST]:
            self.discard(key)
            return None
        return content[_DIGEST:]

    def put(self, key: str, program: bytes) -> None:
        """Keep a program under ``key``; a reader meets all of it or nothing."""
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
                # An interrupt may come when the file has its name already.
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
                return  # Somebody else's: it is in the way of this program only.
            self.full: bool = True
            _warn(str(error))

    def size_of(self, key: str) -> int:
        """The size in bytes of the program under ``key``; 0 if there is none."""
        try:
            return (self.folder / f"{key}{_SUFFIX}").lstat().st_size
        except OSError:
            return 0

    def discard(self, key: str) -> None:
        """Forget the program under ``key``."""
        with contextlib.suppress(OSError):
            (self.folder / f"{key}{_SUFFIX}").unlink()

    def _files(self) -> list[tuple[float, int, str]]:
        """When each file was last used, its size and its path."""
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
        """Delete the files that were not used for longest, until a part of the size is free."""
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
    """Whether to look at all files now that ``written`` of ``size`` bytes are added.

    Looking takes a tenth of a second where there are 30,000 files, so it is done about once for
    each 64th of the size, whichever processes write it: a digest is as good as a draw.
    """
    return int.from_bytes(digest[:4], "big") * size < _LOOKS * written * 2**32


@functools.cache
def store() -> Store | None:
    """The user's store of programs; ``None`` if nothing is to be kept.

    ``FLAMBEAU_CACHE=0`` keeps nothing, ``FLAMBEAU_CACHE_SIZE`` (bytes, or such as ``500MB``) says
    how large the folder may grow. Where there is no folder to write to, or it is another user's,
    nothing is kept, and a warning says so.
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
    """The bytes that ``FLAMBEAU_CACHE_SIZE`` asks for.

    >>> size_from("500MB")
    524288000

    Raises:
        ValueError: It is no number of bytes.
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

    XLA divides the work among the cores that it sees while it compiles and uses the instructions
    that they have: a program that was compiled on one core would run on one core for ever, and one
    from a newer machine with the same home would not run at all.
    """
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    machine = hashlib.sha256(_instructions().encode()).hexdigest()[:8]
    return Path(root) / "flambeau" / f"programs-{machine}-{cores()}"


def note_for(text: str) -> Path:
    """The file of a note about ``text``, beside the folders of programs, which are swept."""
    name = hashlib.blake2b(text.encode(), digest_size=_DIGEST).hexdigest()
    return folder().parent / f"sources-{name}"


def _instructions() -> str:
    """A text that tells the processors' sets of instructions apart."""
    try:
        with open("/proc/cpuinfo") as file:
            # The first processor's features; the others' follow, and would take long on many cores.
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
