"""The errors of reading a file: one base class, and a class for each reason."""

from __future__ import annotations

import pickle

__all__ = [
    "CheckpointError",
    "DamagedFileError",
    "LimitExceededError",
    "RefusedContentError",
    "UnsupportedDtypeError",
]


class CheckpointError(RuntimeError):
    """A file cannot be read; the subclasses say why.

    All that `flambeau.load` and `flambeau.checkpoint.read_metadata` raise about the content of a
    file is a CheckpointError. Others are about the call: an OSError of the operating system, an
    error of ``map_location``, or a device that this machine does not have.

    Attributes:
        reason: The reason, without file and place.
        place: Where in the file: the byte, or the entry of an archive and the byte in it; empty
            where the file as a whole is meant.
        file: The path in quotes, or ``the open file``.

    >>> import io
    >>> import flambeau
    >>> from flambeau.checkpoint import CheckpointError
    >>> try:
    ...     flambeau.load(io.BytesIO(b"text"))
    ... except CheckpointError as error:
    ...     print(error.file, "|", error.reason)
    the open file | it ends after 4 bytes, within the length of the header
    """

    def __init__(self, reason: str, place: str = "", file: str = "the open file") -> None:
        super().__init__(reason, place, file)
        self.reason = reason
        self.place = place
        self.file = file

    def at(self, place: str) -> None:
        """Note the place, unless one is known that is nearer to the fault."""
        self.place: str = self.place or place

    def __str__(self) -> str:
        where = f" (at {self.place})" if self.place else ""
        return f"{self.file} {self._verdict()}: {self.reason}{where}"

    def _verdict(self) -> str:
        return "cannot be read"


class DamagedFileError(CheckpointError):
    """A file is in none of the formats that are read, or was damaged.

    Attributes:
        format: The format that the file's first bytes are of.
    """

    format = "safetensors file"

    def _verdict(self) -> str:
        return f"is a damaged {self.format}, or not one"


class RefusedContentError(CheckpointError, pickle.UnpicklingError):
    """A file holds something that is not read, such as code or what only PyTorch has."""


class UnsupportedDtypeError(RefusedContentError, TypeError):
    """A tensor in a file is of a dtype that flambeau does not have."""


class LimitExceededError(CheckpointError, pickle.UnpicklingError):
    """A file asks for more than the ``limits=`` of `flambeau.load` or this machine's memory."""
