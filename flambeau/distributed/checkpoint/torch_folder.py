"""Reading a folder that PyTorch's ``torch.distributed.checkpoint`` has written.

The file ``.metadata`` is a pickle of PyTorch's classes. It describes each tensor as boxes of
elements, and says where in which part a box is: as a file of `torch.save`, like each other value.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flambeau.checkpoint.elements import array_of
from flambeau.checkpoint.errors import CheckpointError, DamagedFileError, RefusedContentError
from flambeau.checkpoint.io import load
from flambeau.checkpoint.limits import Budget, Limits
from flambeau.checkpoint.parts import (
    INDEX,
    Stored,
    assembled,
    check_part_name,
    cover,
    folder_size,
)
from flambeau.checkpoint.pickled import NamedFunction, PlainUnpickler, Stateful
from flambeau.checkpoint.source import Source, opened
from flambeau.checkpoint.torch_names import DTYPES
from flambeau.core.values.tensor import Tensor

__all__ = ["METADATA", "RECORDS", "TorchFolder", "is_torch_folder"]

METADATA = ".metadata"
_HOME = "torch.distributed.checkpoint.metadata"
#: PyTorch's classes in the description, by name, with their modules.
RECORDS: dict[str, str] = {
    **dict.fromkeys(("BytesStorageMetadata", "ChunkStorageMetadata", "Metadata"), _HOME),
    **dict.fromkeys(("MetadataIndex", "StorageMeta", "TensorProperties"), _HOME),
    **dict.fromkeys(("TensorStorageMetadata", "_MEM_FORMAT_ENCODING"), _HOME),
    "_StorageInfo": "torch.distributed.checkpoint.filesystem",
}
# Where PyTorch before 2.3 had the class.
_OLDER = ("torch.distributed._shard.sharded_tensor.metadata", "TensorProperties")


def is_torch_folder(path: Path) -> bool:
    """Whether a path is a folder with a description of PyTorch's, and without an index of ours."""
    return path.is_dir() and (path / METADATA).exists() and not (path / INDEX).exists()


class _Record(Stateful):
    """An object of one of PyTorch's classes: its attributes, or a tuple of them."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __getitem__(self, name: str) -> Any:
        return self.state[name]


_CLASSES = {name: type(name, (_Record,), {}) for name in RECORDS}


class _Description(PlainUnpickler):
    """The pickle that describes a folder."""

    def find_class(self, module: str, name: str) -> Any:
        """The replacement of a class or function."""
        if name == "_MEM_FORMAT_ENCODING" or module.startswith("pathlib"):
            return NamedFunction(lambda *_: None)
        if (module, name) == ("copyreg", "__newobj__"):
            return NamedFunction(lambda cls: self.make(cls, (), {}))
        if RECORDS.get(name) == module or (module, name) == _OLDER:
            return _CLASSES[name]
        if (module, name) == ("torch", "Size"):
            return NamedFunction(self._numbers)
        if (module, name) == ("torch.serialization", "_get_layout"):
            return NamedFunction(lambda *_: None)
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        raise RefusedContentError(
            f"it needs {module:.100}.{name:.100}, which no plain checkpoint does: save with the "
            "default planner"
        )

    def _numbers(self, sizes: Any = ()) -> tuple[int, ...]:
        self.budget.take(8 * len(sizes), "a Size")
        if not all(type(each) is int and each >= 0 for each in sizes):
            raise TypeError("a Size of other members than integers")
        return tuple(sizes)

    def make(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An object of one of PyTorch's classes, which gets its state later."""
        if not any(cls is each for each in _CLASSES.values()) or args or kwargs:
            super().make(cls, args, kwargs)
        return cls()


class _Together(Limits):
    """The limits of files that share one budget."""

    def __init__(self, shared: Budget, depth: int) -> None:
        super().__init__(depth=depth)
        object.__setattr__(self, "_shared", shared)

    def budget(self, file_size: int) -> Budget:
        """The common budget."""
        return self._shared  # type: ignore[attr-defined]


class Chunk(NamedTuple):
    """The place of a box of elements, or of a value: some bytes of a part."""

    shape: tuple[int, ...]
    start: int
    length: int


class TorchFolder:
    """An open folder of ``torch.distributed.checkpoint``, with the interface of `Parts`.

    Args:
        folder: The folder.
        limits: The limits on the claims of all files together.

    Attributes:
        folder: The folder.
        names: The names of the tensors, including all names of tied tensors.

    Raises:
        CheckpointError: The description is damaged, or needs other classes than the usual ones.
        OSError: A file cannot be read: ``FileNotFoundError`` if there is none.
    """

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        self.folder = folder
        self._limits = limits or Limits()
        self._files = contextlib.ExitStack()
        self._open: dict[str, Source] = {}
        self._values: dict[str, tuple[str, Chunk]] = {}
        self._tensors: dict[str, Stored] = {}
        self._last: tuple[Any, Any, Any] = (None, None, None)
        with opened(folder / METADATA) as source:
            pickled = io.BytesIO(source.read(0, source.size))
            budget = self._limits.budget(source.size)
            found = _Description(pickled, source.size, budget, self._limits.depth).load()
            self._budget = self._limits.budget(folder_size(folder))
            try:
                self._take(found)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                reason = f"its description is not complete ({type(error).__name__}: {error!s:.80})"
                raise DamagedFileError(reason) from None
            first: dict[Any, str] = {}
            self._first = {
                name: first.setdefault((stored.shape, *stored.pieces), name)
                for name, stored in self._tensors.items()
            }
            for name in first.values():
                of = self._tensors[name]
                self._budget.take(of.dtype.itemsize * math.prod(of.shape), f"tensor {name!r:.80}")
        self.names: list[str] = [*self._tensors]

    def __enter__(self) -> TorchFolder:
        return self

    def __exit__(self, *error: object) -> None:
        self._files.close()

    def first_name(self, name: str) -> str:
        """The first name of the tensors that have these elements."""
        return self._first[name]

    def _take(self, found: Any) -> None:
        places: dict[tuple[str, Any], tuple[str, int, int]] = {}
        for index, info in found["storage_data"].items():
            if info.state.get("transform_descriptors"):
                raise RefusedContentError("it is compressed; save it without extensions")
            part = info["relative_path"]
            check_part_name(part)
            place = part, int(info["offset"]), int(info["length"])
            places[index["fqn"], index.state.get("offset")] = place
        for name, each in found["state_dict_metadata"].items():
            if type(each) is _CLASSES["BytesStorageMetadata"]:
                part, start, length = places[name, None]
                self._values[name] = part, Chunk((), start, length)
                continue
            shape, of = each["size"], each["properties"].state
            pieces: list[tuple[tuple[int, ...], Any, str]] = []
            for chunk in each["chunks"]:
                # Devices without elements have written nothing.
                if 0 in chunk["sizes"] and 0 not in shape:
                    continue
                part, start, length = places[name, chunk["offsets"]]
                pieces.append((chunk["offsets"], Chunk(chunk["sizes"], start, length), part))
            if not cover(shape, [(start, chunk.shape) for start, chunk, _ in pieces]):
                raise DamagedFileError(
                    f"the pieces of {name!r:.80} do not make up one tensor of shape {list(shape)}"
                )
            of = of["dtype"] if isinstance(of, dict) else of[0]
            self._tensors[name] = Stored(of.numpy, shape, pieces)

    def stored(self, name: str) -> Stored:
        """The dtype, the shape and the pieces of a tensor."""
        return self._tensors[name]

    def read(self, stored: Stored, region: Sequence[slice] | None = None) -> np.ndarray:
        """The elements of a region; reads the pieces that overlap it.

        Raises:
            CheckpointError: A part is missing or damaged, or does not have the elements.
        """
        return assembled(stored, region, self._box)

    def _box(self, part: str, chunk: Chunk, box: list[tuple[int, int]]) -> np.ndarray:
        if self._last[:2] != (part, chunk):
            found = self._content(part, chunk, self._limits)
            if not isinstance(found, Tensor) or tuple(found.shape) != chunk.shape:
                reason = f"it has no tensor of shape {list(chunk.shape)} at its place"
                raise self._error(part, reason)
            # The devices that share a piece read it one after the other.
            self._last = part, chunk, array_of(found)
        return self._last[2][tuple(slice(*each) for each in box)]

    def values(self) -> dict[str, Any]:
        """All values other than tensors, by name.

        Raises:
            CheckpointError: A part is missing or damaged.
        """
        limits = _Together(self._budget, self._limits.depth)
        return {name: self._content(*place, limits) for name, place in self._values.items()}

    def _content(self, part: str, chunk: Chunk, limits: Limits) -> Any:
        if part not in self._open:
            try:
                file = open(self.folder / part, "rb")  # noqa: SIM115 - closed with the checkpoint
            except FileNotFoundError:
                raise self._error(METADATA, f"its part {part!r:.80} is missing") from None
            self._files.callback(file.close)
            self._open[part] = Source(file)
        try:
            data = self._open[part].read(chunk.start, chunk.length)
            return load(io.BytesIO(data), map_location="cpu", limits=limits)
        except CheckpointError as error:
            error.file = repr(os.fspath(self.folder / part))
            raise

    def _error(self, part: str, reason: str) -> CheckpointError:
        return CheckpointError(reason, file=repr(os.fspath(self.folder / part)))
