"""The records of a file written by `save`, as bytes."""

from __future__ import annotations

from typing import Any

from flambeau.checkpoint.archive import Archive
from flambeau.checkpoint.limits import Limits
from flambeau.checkpoint.source import opened

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """The records of an archive, by name without the common folder.

    >>> import io
    >>> import flambeau
    >>> file = io.BytesIO()
    >>> flambeau.save({"weight": flambeau.ones(3)}, file)
    >>> _ = file.seek(0)
    >>> reader = flambeau.PyTorchFileReader(file)
    >>> reader.has_record("data.pkl"), len(reader.get_record("data/0"))
    (True, 12)

    Args:
        name_or_buffer: A path, or a file open for reading bytes, which is read to its end.

    Raises:
        CheckpointError: The file is not an archive, or it is damaged.
    """

    def __init__(self, name_or_buffer: Any) -> None:
        self._records: dict[str, bytes] = {}
        with opened(name_or_buffer) as source:
            archive = Archive(source, Limits().budget(source.size))
            for name in archive.names:
                self._records[name.partition("/")[2]] = archive.read(name)

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        return list(self._records)

    def has_record(self, name: str) -> bool:
        """Whether there is a record of this name."""
        return name in self._records

    def get_record(self, name: str) -> bytes:
        """The bytes of a record.

        Raises:
            RuntimeError: There is no record of this name.
        """
        if name not in self._records:
            raise RuntimeError(f"the archive has no record {name!r}: {self.get_all_records()}")
        return self._records[name]
