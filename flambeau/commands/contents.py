"""The tensors and values of any checkpoint by name; elements are read only when asked for."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flambeau.checkpoint.elements import elements_of, unexpanded
from flambeau.checkpoint.errors import OPEN_FILE, CheckpointError, DamagedFileError
from flambeau.checkpoint.io import START, reader_of
from flambeau.checkpoint.limits import Budget, Limits
from flambeau.checkpoint.parts import Parts, check_part_name, folder_size
from flambeau.checkpoint.pickled import shown
from flambeau.checkpoint.source import Source
from flambeau.checkpoint.torch_reader import Reading
from flambeau.checkpoint.torch_tensors import Deferred
from flambeau.core.devices.device import META
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.checkpoint.torch_folder import TorchFolder, is_torch_folder

__all__ = ["Contents", "StoredTensor", "boxes", "entries", "named", "opened_contents"]

Box = tuple[slice, ...]
# The most bytes in a box of elements.
_BLOCK = 1 << 24
# The memory of an entry's name besides its characters.
_NAME = 100


class StoredTensor(NamedTuple):
    """A tensor of a checkpoint.

    Attributes:
        dtype: NumPy's dtype.
        shape: Its shape.
        stored: The shape of the elements that the file has: 1 for expanded dimensions.
        first: The first name of a tensor with several names; otherwise its name.
        read: Reads a box of the stored elements.
    """

    dtype: Any
    shape: tuple[int, ...]
    stored: tuple[int, ...]
    first: str
    read: Callable[[Box], np.ndarray]

    @property
    def nbytes(self) -> int:
        """The size of the stored elements in bytes."""
        return self.dtype.itemsize * math.prod(self.stored)


class Contents(NamedTuple):
    """An open checkpoint.

    Attributes:
        format: The format, in words.
        size: The bytes of its files.
        tensors: The tensors by name: the keys on the way to each, joined by dots.
        values: Everything else, by name.
        metadata: The text that the format keeps besides the tensors.
    """

    format: str
    size: int
    tensors: dict[str, StoredTensor]
    values: dict[str, Any]
    metadata: dict[str, Any]


@contextlib.contextmanager
def opened_contents(path: str | os.PathLike[str], limits: Limits) -> Iterator[Contents]:
    """The content of a folder, an index, or a file that `flambeau.load` reads. It runs no code.

    Raises:
        CheckpointError: The file is damaged or has content that is not read; also when elements are
            read.
        OSError: The file cannot be read.
    """
    with contextlib.ExitStack() as stack:
        if not os.path.isdir(path):
            file = stack.enter_context(open(path, "rb"))
            source = Source(file)
            read, kind = reader_of(source.read(0, min(START, source.size)))
            if read is not None:
                with named(path, kind):
                    found = _of_torch(path, source, read, kind, limits)
                yield found
                return
        if is_torch_folder(Path(path)):
            yield _of_folder(stack.enter_context(TorchFolder(Path(path), limits)))
            return
        parts = stack.enter_context(Parts(path))
        found = _of_parts(parts)
        if isinstance(name := parts.facts.get("values"), str):
            with named(path):
                check_part_name(name)
            values = stack.enter_context(opened_contents(parts.folder / name, limits))
            found = found._replace(values=values.values)
        yield found


@contextlib.contextmanager
def named(path: str | os.PathLike[str], kind: str = "") -> Iterator[None]:
    """Give errors from the block the file's name, unless they have one."""
    try:
        yield
    except CheckpointError as error:
        if error.file == OPEN_FILE:
            error.file = repr(os.fspath(path))
        if kind and isinstance(error, DamagedFileError):
            error.format = kind
        raise


def _of_folder(folder: TorchFolder) -> Contents:
    kind = "folder of PyTorch's distributed.checkpoint"
    size, tensors = folder_size(folder.folder), _tensors_of(folder)
    return Contents(kind, size, tensors, folder.values(), {})


def _tensors_of(parts: Parts | TorchFolder) -> dict[str, StoredTensor]:
    tensors: dict[str, StoredTensor] = {}
    for name in parts.names:
        found = parts.stored(name)
        tensors[name] = StoredTensor(
            np.dtype(found.dtype),
            found.shape,
            found.shape,
            parts.first_name(name),
            partial(parts.read, found),
        )
    return tensors


def _of_parts(parts: Parts) -> Contents:
    parts.claim_all()
    tensors = _tensors_of(parts)
    count = len(parts.sizes)
    kind = "safetensors file" if count == 1 else f"checkpoint of {count} safetensors files"
    return Contents(kind, sum(parts.sizes.values()), tensors, {}, parts.texts)


def _of_torch(
    path: Any, source: Source, read: Callable[..., Any], kind: str, limits: Limits
) -> Contents:
    readers: dict[int, tuple[Tensor, Any]] = {}
    whole = read(source, Reading(lambda _: META, True, limits, partial(Deferred, readers)))
    tensors: dict[str, StoredTensor] = {}
    values: dict[str, Any] = {}
    firsts: dict[Any, str] = {}
    for name, value in entries(whole, limits.budget(source.size)):
        if name in tensors or name in values:
            raise CheckpointError(f"two entries have the name {name!r:.80}, keys joined by dots")
        if isinstance(value, Tensor):
            first = firsts.setdefault(elements_of(value), name)
            tensors[name] = _deferred(path, value, first, readers)
        else:
            values[name] = value
    return Contents(kind, source.size, tensors, values, {})


def _deferred(path: Any, tensor: Tensor, first: str, readers: Any) -> StoredTensor:
    base, strides = unexpanded(tensor)
    shape, of = tuple(tensor.shape), np.dtype(tensor.dtype.numpy)
    added = len(shape) - base.dim()
    stored = tuple(1 if n and not stride else n for n, stride in zip(shape, strides, strict=True))
    if id(base._cell) not in readers:  # Saved on the meta device.
        return StoredTensor(of, shape, (0,), first, lambda box: np.zeros(0, of))
    _, reader = readers[id(base._cell)]

    def read(box: Box) -> np.ndarray:
        with named(path):
            return reader(box[added:])[(None,) * added]

    return StoredTensor(of, shape, stored, first, read)


class Repeated(NamedTuple):
    """A container that is also elsewhere in the content, under its first name."""

    first: str


def entries(content: Any, budget: Budget) -> Iterator[tuple[str, Any]]:
    """All tensors and values in nested containers, by their keys joined by dots.

    Lists and tuples of plain values are values. A container that is met again is `Repeated`.

    Args:
        content: The outermost container.
        budget: Counts the memory of the names, which repeat the keys of outer containers.
    """

    def joined(prefix: str, key: Any) -> str:
        name = prefix + (key if type(key) is str else shown(key))
        budget.take(len(name) + _NAME, "a name of an entry")
        return name

    seen: dict[int, str] = {}
    waiting = [("", content)]
    while waiting:
        name, value = waiting.pop()
        if not _has_entries(value):
            yield name, value
        elif id(value) in seen:
            yield name, Repeated(seen[id(value)])
        else:
            seen[id(value)] = name
            members = value.items() if isinstance(value, dict) else enumerate(value)
            prefix = f"{name}." if name else ""
            waiting += reversed([(joined(prefix, key), each) for key, each in members])


def _has_entries(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value)
    kinds = (dict, list, tuple, Tensor)
    return type(value) in (list, tuple) and any(isinstance(each, kinds) for each in value)


def boxes(shape: tuple[int, ...], itemsize: int) -> Iterator[Box]:
    """Boxes that cover a shape, each contiguous, in order, and of at most 16 MiB."""
    if not shape:
        yield ()
        return
    inner = [itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape))]
    axis = next((i for i, size in enumerate(inner) if size <= _BLOCK), len(shape) - 1)
    step = max(_BLOCK // max(inner[axis], 1), 1)
    rest = (slice(None),) * (len(shape) - axis - 1)
    for outer in np.ndindex(*shape[:axis]):
        first = tuple(slice(i, i + 1) for i in outer)
        for start in range(0, shape[axis], step):
            yield (*first, slice(start, min(start + step, shape[axis])), *rest)
