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

#: The name of a file that was given open, or is not known yet.
OPEN_FILE = "the open file"


class CheckpointError(RuntimeError):
    """A file cannot be read; the subclasses give the reason.

    Every error of `flambeau.load` and `flambeau.checkpoint.read_metadata` about the content of a
    file is a CheckpointError. Other errors are about the call: an OSError of the operating system,
    an error of ``map_location``, or a device that this machine does not have.

    Attributes:
        reason: The reason, without file and place.
        place: The byte of the file, or the entry of an archive and the byte in it; empty for the
            whole file.
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

    def __init__(self, reason: str, place: str = "", file: str = OPEN_FILE) -> None:
        super().__init__(reason, place, file)
        self.reason = reason
        self.place = place
        self.file = file

    def at(self, place: str) -> None:
        """Note the place, unless a more precise one is known."""
        self.place: str = self.place or place

    def __str__(self) -> str:
        where = f" (at {self.place})" if self.place else ""
        return f"{self.file} {self._verdict()}: {self.reason}{where}"

    def _verdict(self) -> str:
        return "cannot be read"


class DamagedFileError(CheckpointError):
    """A file has none of the formats that can be read, or is damaged.

    Attributes:
        format: The format that the file's first bytes indicate.
    """

    format = "safetensors file"

    def _verdict(self) -> str:
        return f"is a damaged {self.format}, or not one"


class RefusedContentError(CheckpointError, pickle.UnpicklingError):
    """A file holds content that is not read, such as code or PyTorch-only objects."""


class UnsupportedDtypeError(RefusedContentError, TypeError):
    """A tensor in a file has a dtype that flambeau lacks."""


class LimitExceededError(CheckpointError, pickle.UnpicklingError):
    """A file needs more than the ``limits=`` of `flambeau.load`, or than this machine's memory."""
