"""The entries of a zip archive, as PyTorch writes them."""

from __future__ import annotations

import contextlib
import errno
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

from flambeau.checkpoint.errors import DamagedFileError, RefusedContentError
from flambeau.checkpoint.limits import Budget
from flambeau.checkpoint.source import Source

__all__ = ["Archive"]

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_LOCAL_SIGNATURE = b"PK\x03\x04"
_NAMED_IN_UTF8 = 0x800
# The flags of entries that are encrypted or patch data.
_UNREADABLE = 0x1 | 0x20 | 0x40
# Entries of which a part is read are checked in blocks of this many bytes.
_BLOCK = 1 << 24


class Archive:
    """A zip archive whose entries are stored or deflated.

    Sizes stated in the archive are checked before they are used, and names must be unique: readers
    differ in which of two entries with one name they use.

    Args:
        source: The file.
        budget: Counts the size of inflated entries.

    Raises:
        DamagedFileError: The list of entries cannot be read.
        RefusedContentError: Two entries have one name.
    """

    def __init__(self, source: Source, budget: Budget) -> None:
        self._source = source
        self._budget = budget
        with _damage_noticed():
            # `ZipFile` is used only for the list of entries, and leaves the file open.
            listed = zipfile.ZipFile(source.file).infolist()
        counts = Counter(each.filename for each in listed)
        for name, count in counts.items():
            if count > 1:
                raise RefusedContentError(
                    f"{count} entries of the archive have the name {name!r:.80}"
                )
        self._entries = {each.filename: each for each in listed}
        # For entries whose checksum is right, the position of the first byte.
        self._starts: dict[str, int] = {}
        self._inflated: dict[str, bytes] = {}

    @property
    def names(self) -> list[str]:
        """The names of all entries, in order."""
        return list(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def size(self, name: str) -> int:
        """The size of an entry in bytes."""
        return self._entries[name].file_size

    def read(self, name: str, start: int = 0, count: int | None = None) -> bytes:
        """``count`` bytes of an entry from its byte ``start`` on; by default all.

        Raises:
            DamagedFileError: The entry is not where it should be, or its checksum is wrong.
            RefusedContentError: The entry is encrypted, or compressed in another way.
            LimitExceededError: The entry inflates to too much.
        """
        count = self.size(name) - start if count is None else count
        if name in self._inflated:
            return self._inflated[name][start : start + count]
        if name in self._starts:
            return self._source.read(self._starts[name] + start, count)
        try:
            if count < self.size(name) and self._check_by_blocks(self._entries[name]):
                return self.read(name, start, count)
            whole = self._checked(self._entries[name])
        except (DamagedFileError, RefusedContentError) as error:
            error.at(f"entry {name!r:.80}")
            raise
        return whole if count == len(whole) else whole[start : start + count]

    def _checked(self, entry: zipfile.ZipInfo) -> bytes:
        if entry.flag_bits & _UNREADABLE:
            raise RefusedContentError("the entry is encrypted")
        start = self._start_of(entry)
        if entry.compress_type == zipfile.ZIP_STORED:
            if entry.file_size != entry.compress_size:
                raise DamagedFileError("the entry has two sizes")
            found = self._source.read(start, entry.file_size)
            self._starts[entry.filename] = start
        elif entry.compress_type == zipfile.ZIP_DEFLATED:
            self._budget.take(entry.file_size, f"entry {entry.filename!r:.80}")
            found = _inflated(self._source.read(start, entry.compress_size), entry.file_size)
            self._inflated[entry.filename] = found
        else:
            raise RefusedContentError(f"compression method {entry.compress_type} is not read")
        _compare(zlib.crc32(found), entry)
        return found

    def _check_by_blocks(self, entry: zipfile.ZipInfo) -> bool:
        """Check a large stored entry without holding it; ``False`` for any other."""
        is_stored = entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & _UNREADABLE
        if not is_stored or not _BLOCK < entry.file_size == entry.compress_size:
            return False
        start, checksum = self._start_of(entry), 0
        for at in range(0, entry.file_size, _BLOCK):
            count = min(_BLOCK, entry.file_size - at)
            checksum = zlib.crc32(self._source.read(start + at, count), checksum)
        _compare(checksum, entry)
        self._starts[entry.filename] = start
        return True

    def _start_of(self, entry: zipfile.ZipInfo) -> int:
        header = self._source.read(entry.header_offset, _LOCAL_HEADER.size)
        signature, _, flags, *_, name_size, extra_size = _LOCAL_HEADER.unpack(header)
        start = entry.header_offset + _LOCAL_HEADER.size
        name = self._source.read(start, name_size)
        encoding = "utf-8" if flags & _NAMED_IN_UTF8 else "cp437"
        if signature != _LOCAL_SIGNATURE or name != entry.orig_filename.encode(encoding, "replace"):
            raise DamagedFileError("the entry does not begin where the list of entries says")
        return start + name_size + extra_size


def _compare(checksum: int, entry: zipfile.ZipInfo) -> None:
    if checksum != entry.CRC:
        raise DamagedFileError("the checksum of the entry is wrong (Bad CRC-32)")


def _inflated(data: bytes, size: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        # One byte more than needed, to notice extra data; 0 would mean all.
        found = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise DamagedFileError(f"the entry cannot be inflated: {error}") from None
    if len(found) != size or not inflater.eof:
        raise DamagedFileError(f"the entry does not inflate to the {size} bytes that it should")
    return found


@contextlib.contextmanager
def _damage_noticed() -> Iterator[None]:
    """Turn the errors of `zipfile` for damaged lists into `DamagedFileError`."""
    try:
        yield
    except OSError as error:
        # An invalid position; any other error comes from the disk.
        if error.errno not in (errno.EINVAL, None):
            raise
        raise DamagedFileError(_told(error)) from None
    except (
        zipfile.BadZipFile, EOFError, ValueError, OverflowError, IndexError, KeyError, struct.error,
        NotImplementedError,
    ) as error:  # fmt: skip
        raise DamagedFileError(_told(error)) from None


def _told(error: Any) -> str:
    return f"the list of the archive's entries cannot be read ({error})"
