"""Flat dicts of tensors as safetensors files.

They can be read by every safetensors reader, and hold no code: loading one from a stranger runs
nothing. Beside the tensors, the file's text metadata holds what a plain reader has no place
for, as JSON under one key:

- the order of the names;
- which names stand for one tensor, whose elements are written once (tied weights);
- a state dict's ``_metadata``, the versions of the modules that made it.

The layout of a file is the one that the safetensors project documents as its format.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, deserialize, safe_open
from safetensors import numpy as safetensors_numpy

from flambeau.checkpoint.atomic import atomic_path
from flambeau.checkpoint.elements import array_of, elements_of
from flambeau.core import dtype as dtypes
from flambeau.core.convert import place
from flambeau.core.device import device
from flambeau.core.tensor import Tensor

__all__ = ["check_metadata", "read_metadata", "read_safetensors", "write_safetensors"]

Source = str | os.PathLike[str] | BinaryIO
OWN_KEY = "flambeau"
RESERVED_NAME = "__metadata__"

_NUMPY_DTYPES: dict[str, Any] = {
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
_SAVED_DTYPES = frozenset(np.dtype(each) for each in _NUMPY_DTYPES.values())


def write_safetensors(obj: Mapping[str, Tensor], f: Source, texts: dict[str, str]) -> None:
    """Write a flat dict of tensors; see `flambeau.save`.

    Args:
        obj: Tensors by name.
        f: A path, or a file open for writing bytes.
        texts: What `check_metadata` gives.

    Raises:
        TypeError: ``obj`` is not a dict, or under the name that the message gives there is no
            tensor, or one of a dtype that the format does not have (complex128).
        ValueError: A name is ``__metadata__``.
        NotImplementedError: A tensor is on the meta device, so has no elements.
    """
    tensors = _checked(obj)
    shared = _second_names(tensors)
    texts = {**texts, OWN_KEY: _own_text(list(tensors), shared, getattr(obj, "_metadata", None))}
    arrays = {name: array_of(t) for name, t in tensors.items() if name not in shared}
    if isinstance(f, str | os.PathLike):
        with atomic_path(f) as temporary:
            safetensors_numpy.save_file(arrays, temporary, texts)
    else:
        f.write(safetensors_numpy.save(arrays, texts))


def read_safetensors(f: Source, where: device) -> OrderedDict[str, Tensor]:
    """The tensors of a file, by name and in the order in which they were saved.

    Files of other programs are read too; their names come in the order of the file's data.

    Args:
        f: A path, or a file open for reading bytes.
        where: The device that the tensors are put on.

    Raises:
        RuntimeError: The file is not in the safetensors format, or damaged.
        TypeError: The named tensor is of a dtype that flambeau does not have.
    """
    content = _content(f)
    own = _own_facts(content)
    found = {name: Tensor._wrap(place(array, where)) for name, array in content.arrays}
    for name, first in own.shared.items():
        if name not in found and first in found:
            found[name] = found[first]
    # Another program may have added names or taken some away since.
    known = [name for name in own.names if name in found]
    state = OrderedDict((name, found[name]) for name in dict.fromkeys([*known, *found]))
    if own.state_dict is not None:
        state._metadata = OrderedDict(own.state_dict)  # type: ignore[attr-defined]
    return state


def read_metadata(f: Source) -> dict[str, str]:
    """The text that was saved with the tensors of a safetensors file, without reading the tensors.

    Args:
        f: a path, or a file open for reading bytes.

    Raises:
        FileNotFoundError: there is no file of this path.
        RuntimeError: the file is not in the safetensors format, or damaged.
    """
    return {key: text for key, text in _content(f).metadata.items() if key != OWN_KEY}


# What is saved


def _checked(obj: Any) -> dict[str, Tensor]:
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
            f"{name!r} is no tensor but of type {type(value).__name__}; "
            "make it a tensor, keep it as text in metadata=, or save to a file whose name ends in "
            ".pt"
        )
    if value.is_meta:
        raise NotImplementedError(
            f"{name!r} is on the meta device and has no elements to save; give it some first"
        )
    if value.dtype.numpy not in _SAVED_DTYPES:
        raise TypeError(
            f"{name!r} is of dtype {value.dtype}, which safetensors files cannot hold; "
            "convert it, or save its real and imaginary parts"
        )


def check_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """The text to keep with the tensors, checked.

    Raises:
        TypeError: It is not text by text.
        ValueError: A key is ``flambeau``.
    """
    texts = dict(metadata or {})
    for key, text in texts.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise TypeError(f"metadata must be text by text, got {key!r}: {text!r}")
    if OWN_KEY in texts:
        raise ValueError(f"metadata cannot have the key {OWN_KEY!r}, which save() itself uses")
    return texts


def _second_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """For each name of a tensor that has an earlier name, that name."""
    first_names: dict[Any, str] = {}
    second_names: dict[str, str] = {}
    for name, tensor in tensors.items():
        first = first_names.setdefault(elements_of(tensor), name)
        if first != name:
            second_names[name] = first
    return second_names


def _own_text(names: list[str], shared: dict[str, str], state_dict: Any) -> str:
    try:
        return json.dumps({"names": names, "shared": shared, "state_dict": state_dict})
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the state dict's _metadata cannot be written as JSON: {error}; "
            "keep numbers, text, lists and dicts in it"
        ) from None


# What is loaded


class _Content(NamedTuple):
    """What a file holds: its text, and its tensors one at a time, in the order of the data."""

    origin: str
    metadata: dict[str, str]
    arrays: Iterator[tuple[str, np.ndarray]]


class _OwnFacts(NamedTuple):
    names: list[str]
    shared: dict[str, str]
    state_dict: dict[str, Any] | None


def _content(f: Source) -> _Content:
    is_path = isinstance(f, str | os.PathLike)
    origin = repr(os.fspath(f)) if is_path else "the open file"
    try:
        return _content_of_path(Path(f), origin) if is_path else _content_of(f.read(), origin)
    except SafetensorError as error:
        raise _damaged(origin, error) from None


def _damaged(origin: str, why: object) -> RuntimeError:
    return RuntimeError(
        f"{origin} is no safetensors file, or a damaged one: {why}; PyTorch's files, which load() "
        "reads too, begin otherwise"
    )


def _content_of_path(path: Path, origin: str) -> _Content:
    with safe_open(path, framework="np") as file:
        metadata = file.metadata() or {}
        stored = [file.get_slice(name).get_dtype() for name in file.offset_keys()]
    if all(dtype in _NUMPY_DTYPES and not dtype.startswith("F8") for dtype in stored):
        return _Content(origin, metadata, _arrays_of_path(path))
    # safe_open finds no NumPy dtype for 8-bit floating point.
    return _content_of(path.read_bytes(), origin)


def _arrays_of_path(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    with safe_open(path, framework="np") as file:
        for name in file.offset_keys():
            yield name, file.get_tensor(name)


def _content_of(data: bytes, origin: str) -> _Content:
    entries = deserialize(data)
    header_size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + header_size])
    return _Content(origin, header.get(RESERVED_NAME) or {}, _arrays_of_entries(entries))


def _arrays_of_entries(entries: Any) -> Iterator[tuple[str, np.ndarray]]:
    for name, entry in entries:
        dtype = _NUMPY_DTYPES.get(entry["dtype"])
        if dtype is None:
            known = ", ".join(each.name for each in dtypes.ALL_DTYPES)
            raise TypeError(
                f"{name!r} is of dtype {entry['dtype']}, which no tensor here can have; "
                f"there are {known}"
            )
        yield name, np.frombuffer(entry["data"], dtype).reshape(entry["shape"])


def _own_facts(content: _Content) -> _OwnFacts:
    text = content.metadata.get(OWN_KEY)
    if text is None:
        return _OwnFacts([], {}, None)
    try:
        facts = json.loads(text)
        return _OwnFacts(list(facts["names"]), dict(facts["shared"]), facts["state_dict"])
    except (ValueError, TypeError, KeyError) as error:
        why = f"its metadata under {OWN_KEY!r} is not what save() writes there ({error!r})"
        raise _damaged(content.origin, why) from None
