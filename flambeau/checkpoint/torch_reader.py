"""Reading the files of `torch.save`: zip archives, and the format before them.

Both contain a pickle, in which tensors are calls of PyTorch's functions on storages outside it. The
formats are described at https://docs.pytorch.org/docs/2.13/notes/serialization.html
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, NoReturn

from flambeau.checkpoint.archive import Archive
from flambeau.checkpoint.errors import DamagedFileError, RefusedContentError
from flambeau.checkpoint.limits import Budget, Limits
from flambeau.checkpoint.source import Source
from flambeau.checkpoint.torch_pickles import Pickles, dtype_of
from flambeau.checkpoint.torch_tensors import Shapes, Storage, Tensors
from flambeau.core.devices.device import META, device

__all__ = [
    "Reading",
    "begins_archive",
    "begins_older_file",
    "begins_tar",
    "read_archive",
    "read_older_file",
    "refuse_tar",
]

# The magic number of the older format, after the pickle's first two bytes.
_MAGIC = 0x1950A86A20F9469CFC6C
_OLDER_VERSION = 1001
_PICKLE, _ZIP = b"\x80\x02", b"PK\x03\x04"
_PICKLED = "data.pkl"
_LENGTH = 8

#: Maps the name of the device on which tensors were saved to a device.
Placing = Callable[[str], device]


class Reading(NamedTuple):
    """Options for reading a file.

    Attributes:
        placed: Maps the name of the device on which tensors were saved to a device.
        weights_only: Whether only tensors, numbers, text and containers of them are read.
        limits: The limits on the file's claims.
        tensors: Creates what creates the tensors, from a budget and the byte order.
    """

    placed: Placing
    weights_only: bool
    limits: Limits
    tensors: Callable[[Budget, str], Tensors] = Tensors


def begins_archive(start: bytes) -> bool:
    """Whether a file with this beginning is a zip archive."""
    return start.startswith(_ZIP)


def begins_older_file(start: bytes) -> bool:
    """Whether a file with this beginning has PyTorch's format from before archives."""
    return start.startswith(_PICKLE + pickle.dumps(_MAGIC, 2)[2:-1])


def begins_tar(start: bytes) -> bool:
    """Whether a file with this beginning is from before PyTorch 0.1.10."""
    return start[257:262] == b"ustar"


def refuse_tar(source: Source, reading: Reading) -> NoReturn:
    """Refuse a tar archive.

    Raises:
        RefusedContentError: Always.
    """
    raise RefusedContentError(
        "it is a tar archive, of PyTorch before version 0.1.10; load it there and save it again"
    )


def read_archive(source: Source, reading: Reading) -> Any:
    """The content of a file of `torch.save`.

    Raises:
        CheckpointError: The file has another format, or is damaged.
    """
    budget = reading.limits.budget(source.size)
    archive = Archive(source, budget)
    folder = _folder_of(archive)

    def storage(cls: Any, key: str, location: str, *_: Any) -> Storage:
        entry = f"{folder}data/{key}"
        if entry not in archive:
            raise RefusedContentError(f"the archive holds no array {key!r:.80}")
        read = partial(archive.read, entry)
        return Storage(read, archive.size(entry), dtype_of(cls, key), key, reading.placed(location))

    order = _order_of(archive, folder + "byteorder")
    name = folder + _PICKLED
    size = archive.size(name)
    budget.take(size, f"entry {name!r:.80}")
    pickled = io.BytesIO(archive.read(name))
    # The name may itself contain braces.
    place = "byte {} of entry " + f"{name!r:.80}".replace("{", "{{").replace("}", "}}")
    pickles = Pickles(pickled, reading.limits.depth, reading.weights_only, place)
    return pickles.load(0, reading.tensors(budget, order), storage)


def _folder_of(archive: Archive) -> str:
    """The folder of all entries, with a slash at its end."""
    found = [each for each in archive.names if each.endswith("/" + _PICKLED)]
    if not found:
        raise RefusedContentError(f"the archive holds no {_PICKLED}")
    if len(found) > 1:
        raise RefusedContentError(f"the archive holds more than one {_PICKLED}: {found!s:.200}")
    folder = found[0].removesuffix(_PICKLED)
    if folder + "constants.pkl" in archive:
        raise RefusedContentError(
            "it is a TorchScript program; save the state_dict() of its module"
        )
    return folder


def _order_of(archive: Archive, name: str) -> str:
    if name not in archive:
        return "little"
    if archive.size(name) > _LENGTH or (order := archive.read(name)) not in (b"little", b"big"):
        raise DamagedFileError("the byte order is unknown", f"entry {name!r:.80}")
    return order.decode()


class _Array(NamedTuple):
    """The position of a storage in a file of the older format."""

    start: int
    size: int


def read_older_file(source: Source, reading: Reading) -> Any:
    """The content of a file that `torch.save` wrote before version 1.6; see `read_archive`.

    The storages follow the pickle. The pickle is read twice: once to find its end and the sizes of
    the elements, and again to create the tensors.
    """
    depth, weights_only = reading.limits.depth, reading.weights_only
    pickles = Pickles(source.file, depth, weights_only)
    sizes: dict[str, int] = {}

    def noted(cls: Any, key: str, location: str, count: int, view: Any = None) -> Storage:
        if view is not None:
            raise RefusedContentError("an array that is part of another, by a very old PyTorch")
        of = dtype_of(cls, key)
        itemsize = of.itemsize if of else 1
        if sizes.setdefault(key, itemsize) != itemsize:
            raise RefusedContentError(f"array {key!r:.80} has elements of two sizes")
        # Checked below, when the number of elements is known.
        return Storage(_unread, (1 << 62) * itemsize, of, key, META)

    def storage(cls: Any, key: str, location: str, *_: Any) -> Storage:
        start, size = arrays[key]
        read = partial(_part, source, start)
        return Storage(read, size, dtype_of(cls, key), key, reading.placed(location))

    def facts(start: int) -> Any:
        return pickles.load(start, Shapes(reading.limits.budget(source.size)), noted)

    _check_version(facts(0), facts(source.file.tell()))
    order = _order_in(facts(source.file.tell()))
    start = source.file.tell()
    facts(start)
    end = source.file.tell()
    arrays = _arrays(source, facts(end), sizes)
    # Reading storages moves the position in the file.
    place = f"byte {{}} of the pickle at byte {start}"
    pickled = io.BytesIO(source.read(start, end - start))
    pickles = Pickles(pickled, depth, weights_only, place)
    tensors = reading.tensors(reading.limits.budget(source.size), order)
    return pickles.load(0, tensors, storage)


def _check_version(magic: Any, version: Any) -> None:
    if type(magic) is not int or magic != _MAGIC:
        raise DamagedFileError("its first pickle is not PyTorch's number")
    if type(version) is not int or version != _OLDER_VERSION:
        raise RefusedContentError("its version of the older format is not known")


def _order_in(system: Any) -> str:
    if type(system) is not dict:
        raise DamagedFileError("its third pickle does not describe a machine")
    return "little" if system.get("little_endian", True) is True else "big"


def _arrays(source: Source, keys: Any, sizes: dict[str, int]) -> dict[str, _Array]:
    """The positions of the storages, from the sizes of their elements in bytes."""
    if type(keys) is not list or not all(type(each) is str for each in keys):
        raise DamagedFileError("its list of arrays is not a list of names")
    if set(keys) != set(sizes) or len(keys) != len(sizes):
        raise DamagedFileError("its list of arrays does not name those of its tensors")
    found: dict[str, _Array] = {}
    at = source.file.tell()
    for key in keys:
        size = int.from_bytes(source.read(at, _LENGTH), "little") * sizes[key]
        found[key] = _Array(at + _LENGTH, size)
        at += _LENGTH + size
        if at > source.size:
            raise DamagedFileError(f"the file ends within array {key!r:.80}")
    return found


def _part(source: Source, array_start: int, start: int, count: int) -> bytes:
    return source.read(array_start + start, count)


def _unread(start: int, count: int) -> bytes:
    raise NotImplementedError
