"""Flat dicts of tensors as safetensors files.

Every safetensors reader can read them, and they contain no code: loading an untrusted file runs
nothing. In addition to the tensors, the file's text metadata holds as JSON under one key:

- the order of the names;
- the names that share one tensor, whose elements are written once (tied weights);
- a state dict's ``_metadata``, the versions of the modules that made it.

The layout of a file is the one that https://github.com/huggingface/safetensors documents as its
format: the length of a header, the header as JSON, and the elements, without gaps.
"""

from __future__ import annotations

import json
import math
import os
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np

from flambeau.checkpoint.elements import (
    array_from,
    at_one_moment,
    bytes_of,
    checked_shape,
    elements_of,
    tensor_from,
)
from flambeau.checkpoint.errors import (
    DamagedFileError,
    RefusedContentError,
    UnsupportedDtypeError,
)
from flambeau.checkpoint.limits import TENSOR, Budget, Limits
from flambeau.checkpoint.source import Source, opened
from flambeau.checkpoint.torch_names import are_versions
from flambeau.core.devices.device import device
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor

__all__ = ["check_metadata", "read_metadata", "read_safetensors", "write_safetensors"]

OWN_KEY = "flambeau"
RESERVED_NAME = "__metadata__"

NUMPY_DTYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
    "I8": np.int8,
    "I16": np.int16,
    "I32": np.int32,
    "I64": np.int64,
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
    "BF16": ml_dtypes.bfloat16,
    "C64": np.complex64,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
}
_STORED_DTYPES = {np.dtype(each): name for name, each in NUMPY_DTYPES.items()}
_LENGTH = 8
# The largest header that the format allows.
_LONGEST_HEADER = 100_000_000
# Elements begin at multiples of this, so that readers can use them in place.
_ALIGNMENT = 8
#: The most memory that parsed JSON takes in Python, as a multiple of its text.
TIMES_THE_TEXT = 24


def write_safetensors(obj: Mapping[str, Tensor], texts: dict[str, str], file: BinaryIO) -> None:
    """Write a flat dict of tensors; see `flambeau.save`.

    Args:
        obj: Tensors by name.
        texts: The result of `check_metadata`.
        file: Open for writing bytes.

    Raises:
        TypeError: ``obj`` is not a dict, or the value under the name in the message is not a
            tensor, or has a dtype that the format lacks (complex128).
        ValueError: A name is ``__metadata__``.
        NotImplementedError: A tensor is on the meta device, so has no elements.
    """
    tensors = checked(obj)
    shared = second_names(tensors)
    own = _own_text(list(tensors), shared, getattr(obj, "_metadata", None))
    # The largest dtypes first: then the elements of all tensors are aligned.
    written = {name: tensor for name, tensor in tensors.items() if name not in shared}
    written = dict(sorted(written.items(), key=lambda item: -item[1].dtype.itemsize))
    facts = {name: (each.dtype.numpy, tuple(each.shape)) for name, each in written.items()}
    file.write(header_bytes(facts, {**texts, OWN_KEY: own}))
    file.writelines(bytes_of(tensor) for tensor in at_one_moment(written.values()))


def header_bytes(facts: Mapping[str, tuple[Any, tuple[int, ...]]], texts: dict[str, str]) -> bytes:
    """The part of a file before the elements.

    Args:
        facts: NumPy's dtype and the shape of each tensor, in the order of their elements.
        texts: Strings to store with the tensors.
    """
    header: dict[str, Any] = {RESERVED_NAME: texts}
    end = 0
    for name, (of, shape) in facts.items():
        begin, end = end, end + np.dtype(of).itemsize * math.prod(shape)
        stored = _STORED_DTYPES[np.dtype(of)]
        header[name] = {"dtype": stored, "shape": [*shape], "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(_LENGTH, "little") + text


def read_safetensors(source: Source, where: device, limits: Limits) -> OrderedDict[str, Tensor]:
    """The tensors of a file, by name and in the order in which they were saved.

    Files of other programs are read too, with names in the order of the data.

    Args:
        source: The file.
        where: The device that the tensors are put on.
        limits: The limits on the file's claims.

    Raises:
        CheckpointError: The file is not in the safetensors format, or damaged; or a tensor is of a
            dtype that flambeau does not have.
    """
    budget = limits.budget(source.size)
    header = header_of(source, budget)
    own = own_facts(header.texts)
    count = len(header.entries)
    budget.take(TENSOR * count, f"all of {count:,} tensors but their elements")
    found = {each.name: _tensor(source, each, where) for each in header.entries}
    for name, first in own.shared.items():
        if name not in found and first in found:
            found[name] = found[first]
    # Another program may have added or removed names since.
    known = [name for name in own.names if name in found]
    state = OrderedDict((name, found[name]) for name in dict.fromkeys([*known, *found]))
    if own.state_dict is not None:
        state._metadata = OrderedDict(own.state_dict)  # type: ignore[attr-defined]
    return state


def read_metadata(f: str | os.PathLike[str] | BinaryIO) -> dict[str, str]:
    """The text stored with the tensors of a safetensors file, without reading the tensors.

    Args:
        f: a path, or a file open for reading bytes.

    Raises:
        OSError: The file cannot be read: ``FileNotFoundError`` if there is none of this path.
        CheckpointError: The file is not in the safetensors format, or damaged.
    """
    with opened(f) as source:
        texts = header_of(source, Limits().budget(source.size)).texts
    return {key: text for key, text in texts.items() if key != OWN_KEY}


# Saving


def checked(obj: Any) -> dict[str, Tensor]:
    """The tensors that a file can hold; see `write_safetensors` for errors."""
    if not isinstance(obj, Mapping):
        raise TypeError(
            "a safetensors file holds a dict of tensors by name, not what save() got, "
            f"{type(obj).__name__}; for a module, save its state_dict(), anything else to a file "
            "whose name ends in .pt"
        )
    for name, value in obj.items():
        _check_entry(name, value)
    return dict(obj)


def _check_entry(name: Any, value: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"names must be str, got {name!r} of type {type(name).__name__}")
    if name == RESERVED_NAME:
        raise ValueError(f"{name!r} cannot be a tensor's name: the file format uses it")
    if isinstance(value, Mapping):
        raise TypeError(
            f"{name!r} is a dict, and a safetensors file is flat: give its entries names such as "
            f"'{name}.{next(iter(value), 'key')}', or save to a file whose name ends in .pt"
        )
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name!r} is not a tensor but of type {type(value).__name__}; "
            "make it a tensor, keep it as text in metadata=, or save to a file whose name ends in "
            ".pt"
        )
    check_present(name, value)
    if value.dtype.numpy not in _STORED_DTYPES:
        raise TypeError(
            f"{name!r} is of dtype {value.dtype}, which safetensors files cannot hold; "
            "convert it, or save its real and imaginary parts"
        )


def check_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """The text to store with the tensors, checked.

    Raises:
        TypeError: It does not map text to text.
        ValueError: A key is ``flambeau``.
    """
    texts = dict(metadata or {})
    for key, text in texts.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError(f"metadata must map text to text, got {key!r}: {text!r}")
    if OWN_KEY in texts:
        raise ValueError(f"metadata cannot have the key {OWN_KEY!r}, which save() itself uses")
    return texts


def check_present(name: str, tensor: Tensor) -> None:
    """Fail if a tensor has no elements.

    Raises:
        NotImplementedError: It is on the meta device.
    """
    if tensor.is_meta:
        raise NotImplementedError(
            f"{name!r} is on the meta device and has no elements to save; give it some first"
        )


def second_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """For each later name of a tensor, its first name."""
    first_names: dict[Any, str] = {}
    later: dict[str, str] = {}
    for name, tensor in tensors.items():
        first = first_names.setdefault(elements_of(tensor), name)
        if first != name:
            later[name] = first
    return later


def _own_text(names: list[str], shared: dict[str, str], state_dict: Any) -> str:
    try:
        return json.dumps({"names": names, "shared": shared, "state_dict": state_dict})
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the state dict's _metadata cannot be written as JSON: {error}; "
            "keep numbers, text, lists and dicts in it"
        ) from None


# Loading


class Entry(NamedTuple):
    """The entry of one tensor in a header; byte positions count from the beginning of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int


class Header(NamedTuple):
    """The header before the elements: text, and the tensors in the order of the data."""

    texts: dict[str, str]
    entries: list[Entry]


class _OwnFacts(NamedTuple):
    names: list[str]
    shared: dict[str, str]
    state_dict: dict[str, Any] | None


def header_of(source: Source, budget: Budget) -> Header:
    """The header before the elements of a file.

    Args:
        source: The file.
        budget: Counts the memory that the header takes.

    Raises:
        CheckpointError: The file is not in the safetensors format, or damaged.
    """
    if source.size < _LENGTH:
        reason = f"it ends after {source.size} bytes, within the length of the header"
        raise DamagedFileError(reason)
    length = int.from_bytes(source.read(0, _LENGTH), "little")
    if length > min(source.size - _LENGTH, _LONGEST_HEADER):
        raise DamagedFileError(f"a header cannot have {length} bytes", "byte 0")
    try:
        budget.take(TIMES_THE_TEXT * length, "the header")
        facts = of_json(source.read(_LENGTH, length).decode(), "the header")
        texts = _checked_texts(facts.pop(RESERVED_NAME, None))
        first = _LENGTH + length
        entries = [_entry(name, entry, first, source.size) for name, entry in facts.items()]
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"its header is not text: {error}", "byte 8") from None
    entries.sort(key=lambda each: (each.start, each.size))
    _check_places(entries, first, source.size)
    return Header(texts, entries)


def of_json(text: str, subject: str) -> dict[str, Any]:
    """A JSON object, read strictly.

    Raises:
        DamagedFileError: ``text`` is not a JSON object.
    """
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{subject} is not readable JSON: {error}") from None
    if type(found) is not dict:
        raise DamagedFileError(f"{subject} is not a JSON object")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name appears twice in one object")
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _checked_texts(texts: Any) -> dict[str, str]:
    if texts is None:
        return {}
    if type(texts) is not dict or not all(type(each) is str for each in texts.values()):
        raise DamagedFileError(f"{RESERVED_NAME} does not map text to text", "the header")
    return texts


def _entry(name: str, entry: Any, first: int, file_size: int) -> Entry:
    place = f"{name!r:.80} of the header"
    try:
        of, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise DamagedFileError("no dtype, shape and two data_offsets", place) from None
    if (type(of), type(shape), type(begin), type(end)) != (str, list, int, int):
        raise DamagedFileError("an invalid dtype, shape or data_offsets", place)
    if not 0 <= begin <= end <= file_size - first:
        raise DamagedFileError("data_offsets that lie outside of the data", place)
    if of not in NUMPY_DTYPES:
        known = ", ".join(each.name for each in dtypes.ALL_DTYPES)
        raise UnsupportedDtypeError(
            f"{name!r:.80} is of dtype {of:.80}, which no tensor here can have; there are {known}"
        )
    itemsize = np.dtype(NUMPY_DTYPES[of]).itemsize
    try:
        sizes = checked_shape(tuple(shape), itemsize)
    except RefusedContentError as error:
        error.at(place)
        raise
    if end != begin + itemsize * math.prod(sizes):
        raise DamagedFileError(f"data_offsets that do not fit {of} of shape {sizes}", place)
    return Entry(name, of, sizes, first + begin, end - begin)


def _check_places(entries: list[Entry], first: int, size: int) -> None:
    """Check that the tensors are contiguous, from the first byte to the file's last."""
    end = first
    for each in entries:
        if each.start != end:
            raise DamagedFileError(
                f"its elements begin at byte {each.start} instead of {end}",
                f"{each.name!r:.80} of the header",
            )
        end += each.size
    if end != size:
        raise DamagedFileError(f"its tensors end at byte {end}, and the file at byte {size}")


def _tensor(source: Source, entry: Entry, where: device) -> Tensor:
    data = source.elements(entry.start, entry.size)
    found = array_from(data, NUMPY_DTYPES[entry.dtype]).reshape(entry.shape)
    return tensor_from(found, where)


def own_facts(texts: dict[str, str]) -> _OwnFacts:
    """The notes of `write_safetensors` in a file's texts; empty for files of other programs."""
    if OWN_KEY not in texts:
        return _OwnFacts([], {}, None)
    subject = f"its metadata under {OWN_KEY!r}"
    facts = of_json(texts[OWN_KEY], subject)
    names, shared, state_dict = map(facts.get, ("names", "shared", "state_dict"))
    if not (
        type(names) is list
        and type(shared) is dict
        and all(type(each) is str for each in (*names, *shared.values()))
        and (state_dict is None or are_versions(state_dict))
    ):
        raise DamagedFileError(f"{subject} is not in the form that save() writes")
    return _OwnFacts(names, shared, state_dict)
