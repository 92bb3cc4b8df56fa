"""The bytes of a file that is being read."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, TypeVar

import numpy as np

from flambeau.checkpoint.errors import CheckpointError, DamagedFileError, LimitExceededError

__all__ = ["Source", "opened"]


_Bytes = TypeVar("_Bytes", bytes, np.ndarray)

# JAX copies arrays for CPUs that begin elsewhere than at a multiple of this.
_ALIGNMENT = 64
_NOTHING = np.empty(0, np.uint8)


class Source:
    """An open file whose parts are read by position.

    Parts are read, not memory-mapped: if another program truncates a mapped file, reading it
    crashes the process.

    Attributes:
        file: Open for reading bytes, and seekable.
        size: Its size in bytes.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size: int = file.seek(0, os.SEEK_END)

    def read(self, start: int, count: int) -> bytes:
        """The ``count`` bytes from ``start`` on.

        Raises:
            DamagedFileError: The file is shorter.
        """
        found = b""
        if self._holds(start, count):
            found = self.file.read(count)
        return self._whole(found, start, count)

    def elements(self, start: int, count: int) -> np.ndarray:
        """`read` as an array of bytes, in memory that JAX takes over without a copy."""
        read_into = getattr(self.file, "readinto", None)
        if read_into is None:
            return np.frombuffer(self.read(start, count), np.uint8)
        memory = np.empty(count + _ALIGNMENT, np.uint8) if self._holds(start, count) else _NOTHING
        at = -memory.ctypes.data % _ALIGNMENT
        found, done = memory[at : at + count], 0
        # One call may read less, of 2 GB and more.
        while done < len(found) and (more := read_into(found[done:])):
            done += more
        return self._whole(found[:done], start, count)

    def _holds(self, start: int, count: int) -> bool:
        """Go to ``start``, if the file has ``count`` bytes from there on."""
        holds = 0 <= start <= start + count <= self.size
        if holds:
            self.file.seek(start)
        return holds

    def _whole(self, found: _Bytes, start: int, count: int) -> _Bytes:
        if len(found) != count:
            raise DamagedFileError(
                f"{count} bytes from byte {start} on lie beyond the {self.size} of the file"
            )
        return found


@contextlib.contextmanager
def opened(f: Any) -> Iterator[Source]:
    """The bytes of a path, or the rest of a file that is open for reading bytes.

    A CheckpointError from the block gets the file's name, and a MemoryError becomes a
    CheckpointError.

    Raises:
        TypeError: ``f`` is neither, or is open for reading text.
    """
    is_path = isinstance(f, str | os.PathLike)
    try:
        with open(f, "rb") if is_path else io.BytesIO(_rest_of(f)) as file:
            # A file that cannot seek, such as a pipe, is read completely.
            yield Source(file if file.seekable() else io.BytesIO(file.read()))
    except MemoryError as error:
        reason = "this machine has not enough memory for the content"
        raise LimitExceededError(reason, file=_name_of(f)) from error
    except CheckpointError as error:
        error.file = _name_of(f)
        raise


def _name_of(f: Any) -> str:
    return repr(os.fspath(f)) if isinstance(f, str | os.PathLike) else "the open file"


def _rest_of(f: Any) -> bytes:
    if not hasattr(f, "read"):
        # PyTorch's type, which asks for the attribute.
        raise AttributeError(
            f"a file is a path or open for reading bytes, but got a {type(f).__name__}, which has "
            "no attribute 'read'"
        )
    data = f.read()
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"a file must be open for reading bytes ('rb'), and gave {type(data)}")
    return bytes(data)
