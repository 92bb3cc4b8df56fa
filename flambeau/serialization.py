"""Saving and loading, and the globals that files may refer to: `torch.serialization`."""

from __future__ import annotations

import enum
import mmap
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable
from typing import IO, Any

from flambeau._absent import Absent as _Absent
from flambeau.checkpoint.allowed import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from flambeau.checkpoint.io import load, save
from flambeau.checkpoint.torch_pickles import refused_names as _refused_names
from flambeau.core.devices import layout as _layout
from flambeau.core.devices.device import device
from flambeau.core.support.settings import setting

__all__ = [
    "DEFAULT_PROTOCOL", "MAP_LOCATION", "MAP_PRIVATE", "MAP_SHARED", "FileLike", "LoadEndianness",
    "SourceChangeWarning", "add_safe_globals", "check_module_version_greater_or_equal",
    "clear_safe_globals", "get_crc32_options", "get_default_load_endianness",
    "get_default_mmap_options", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load",
    "mkdtemp", "safe_globals", "save", "set_crc32_options", "set_default_load_endianness",
    "set_default_mmap_options",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)

#: The file arguments of `load` and `save`.
FileLike = str | os.PathLike[str] | IO[bytes]
#: The ``map_location`` argument of `load`.
MAP_LOCATION = Callable[[Any, str], Any] | device | str | dict[str, str] | None
#: The protocol of the pickles that `save` writes.
DEFAULT_PROTOCOL = 2
MAP_PRIVATE: int = getattr(mmap, "MAP_PRIVATE", 2)
MAP_SHARED: int = getattr(mmap, "MAP_SHARED", 1)

mkdtemp: Any = tempfile.mkdtemp


class SourceChangeWarning(Warning):
    """PyTorch's warning about changed source code of a class, which is never issued."""


class LoadEndianness(enum.Enum):
    """Byte orders."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_chosen: dict[str, Any] = {"endianness": None, "crc32": True, "mmap": MAP_PRIVATE}


@setting
def get_default_load_endianness() -> LoadEndianness | None:
    """The last value given to `set_default_load_endianness`."""
    return _chosen["endianness"]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order of files that do not record it.

    Raises:
        TypeError: ``endianness`` is not a `LoadEndianness`.
        NotImplementedError: ``endianness`` is not ``LITTLE``, the only supported order.
    """
    if not isinstance(endianness, LoadEndianness | None):
        raise TypeError(f"expected a LoadEndianness or None, got {endianness!r}")
    native = LoadEndianness.LITTLE if sys.byteorder == "little" else LoadEndianness.BIG
    meant = native if endianness is LoadEndianness.NATIVE else endianness
    if meant is LoadEndianness.BIG:
        raise NotImplementedError("files that do not name their order of bytes are little-endian")
    _chosen["endianness"] = endianness


@setting
def get_crc32_options() -> bool:
    """The last value given to `set_crc32_options`."""
    return _chosen["crc32"]


def set_crc32_options(compute_crc32: bool) -> None:
    """Accepted for compatibility: `save` always writes checksums, and `load` verifies them."""
    _chosen["crc32"] = bool(compute_crc32)


@setting
def get_default_mmap_options() -> int:
    """The last value given to `set_default_mmap_options`."""
    return _chosen["mmap"]


def set_default_mmap_options(flags: int) -> None:
    """Accepted for compatibility: `load` does not memory-map files.

    Raises:
        ValueError: ``flags`` is neither ``MAP_PRIVATE`` nor ``MAP_SHARED``.
    """
    if flags not in (MAP_PRIVATE, MAP_SHARED):
        raise ValueError(f"expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, got {flags!r}")
    _chosen["mmap"] = flags


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """The globals in a file that `load` refuses with ``weights_only=True``.

    The file's code is not run.

    Args:
        f: A path, or a file open for reading bytes, of the format that `save` writes.

    Raises:
        ValueError: The file has another format.

    >>> from flambeau.serialization import get_unsafe_globals_in_checkpoint
    >>> import io
    >>> import flambeau
    >>> from fractions import Fraction
    >>> file = io.BytesIO()
    >>> flambeau.save({"ratio": Fraction(1, 3), "weight": flambeau.ones(2)}, file)
    >>> get_unsafe_globals_in_checkpoint(file)
    ['fractions.Fraction']
    """
    file: Any = f
    if not zipfile.is_zipfile(file):
        raise ValueError("expected an archive of flambeau.save or torch.save")
    with zipfile.ZipFile(file) as archive:
        found = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(found) != 1:
            raise ValueError(f"expected an archive with one data.pkl, found {found!s:.200}")
        return _refused_names(archive.read(found[0]))


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[int, ...], error_if_malformed: bool = True
) -> bool:
    """Whether a module's ``__version__`` is at least a given version.

    Raises:
        RuntimeError: The version is malformed, and ``error_if_malformed`` is true.
    """
    try:
        parts = zip(req_version_tuple, module.__version__.split("."), strict=False)
        version = tuple(type(number)(part) for number, part in parts)
    except ValueError as error:
        message = f"{module.__version__!r} is no version of {module.__name__} that can be compared"
        if error_if_malformed:
            raise RuntimeError(message) from error
        return True
    return version >= req_version_tuple


def _get_layout(name: str) -> Any:
    """The layout for a name such as ``"torch.strided"`` in PyTorch's pickles."""
    return getattr(_layout, name.rpartition(".")[2])
