"""A checkpoint in several safetensors files, of which any region can be read separately.

The index is a file of JSON beside the parts, named ``model.safetensors.index.json``, in the form
that Hugging Face's libraries write and read: ``weight_map`` says which part holds each tensor. A
tensor written by several processes is split over several parts; the ``metadata`` of the index then
lists the names of its pieces and where each piece begins.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flambeau.checkpoint.elements import checked_shape
from flambeau.checkpoint.errors import CheckpointError, DamagedFileError, RefusedContentError
from flambeau.checkpoint.limits import TENSOR, Budget, Limits
from flambeau.checkpoint.safetensors_file import (
    NUMPY_DTYPES,
    OWN_KEY,
    TIMES_THE_TEXT,
    Entry,
    Header,
    header_of,
    of_json,
    own_facts,
)
from flambeau.checkpoint.source import Source, opened

__all__ = [
    "INDEX", "SINGLE", "Parts", "Stored", "assembled", "check_part_name", "cover",
    "folder_size", "index_text_begins",
]  # fmt: skip

#: The names that Hugging Face's libraries look for in a folder.
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
# Runs of bytes with gaps up to this length are read together: disks read pages.
_PAGE = 4096
# The bytes to read at once if runs are short.
_BLOCK = 1 << 24


class Piece(NamedTuple):
    """A box of a tensor's elements, and the part that holds it."""

    key: str
    part: str
    start: tuple[int, ...]  # empty: the start of the tensor


class Stored(NamedTuple):
    """A tensor of a checkpoint."""

    dtype: Any
    shape: tuple[int, ...]
    #: The start of each piece, its place (an `Entry`, or of the same use), and its part.
    pieces: list[tuple[tuple[int, ...], Any, str]]


def index_text_begins(start: bytes) -> bool:
    """Whether a file with this beginning is an index: a JSON object rather than a header length."""
    return start.lstrip()[:1] == b"{" and b"\0" not in start[:8]


class Parts:
    """An open checkpoint of one or several safetensors files.

    Headers are read when a tensor is first asked for; elements only by `read`. Use it in a ``with``
    block, which closes the files.

    Args:
        path: A folder with an index or a ``model.safetensors``, an index, or a safetensors file.
        limits: The limits on the claims of all files together.

    Attributes:
        budget: Counts the memory that they claim.
        folder: The folder of the parts.
        names: The names of the tensors, including all names of tied tensors.
        facts: The notes of flambeau in the index.
        texts: Other metadata, of the index or of the only file.

    Raises:
        CheckpointError: There is no complete checkpoint, or the index is damaged.
        OSError: The file cannot be read: ``FileNotFoundError`` if there is none.
    """

    def __init__(self, path: str | os.PathLike[str], limits: Limits | None = None) -> None:
        self._files = contextlib.ExitStack()
        self._open: dict[str, tuple[Source, dict[str, Entry]]] = {}
        self.facts: dict[str, Any] = {}
        self.texts: dict[str, Any] = {}
        self._pieces: dict[str, list[Piece]] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._tied: dict[str, str] = {}
        found = _index_or_file(Path(path))
        self.folder: Path = found.parent
        self.path = found
        self.budget: Budget = (limits or Limits()).budget(_size_beside(found))
        with contextlib.ExitStack() as failing:
            failing.enter_context(self)
            if found.suffix == ".json":
                with opened(found) as source:
                    self._take_index(source)
            else:
                self._take_file(found.name)
            failing.pop_all()
        self.names: list[str] = [*dict.fromkeys([*self._pieces, *self._tied])]

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *error: object) -> None:
        self._files.close()

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes in bytes of the parts that have been opened."""
        return {part: source.size for part, (source, _) in self._open.items()}

    def first_name(self, name: str) -> str:
        """The name under which a tensor's elements are stored, which tied tensors share."""
        return self._tied.get(name, name)

    def claim_all(self) -> None:
        """Count the memory of all tensors besides their elements.

        Raises:
            LimitExceededError: The limit is exceeded.
        """
        count = len({*map(self.first_name, self.names)})
        with self._named(self.path.name):
            self.budget.take(TENSOR * count, f"all of {count:,} tensors but their elements")

    def stored(self, name: str) -> Stored:
        """The dtype, the shape and the pieces of a tensor.

        Raises:
            CheckpointError: A part is missing or damaged, or differs from the index.
        """
        name = self.first_name(name)
        pieces = []
        for each in self._pieces[name]:
            entry = self._entry(each)
            pieces.append((each.start or (0,) * len(entry.shape), entry, each.part))
        kinds = {entry.dtype for _, entry, _ in pieces}
        shape: tuple[int, ...] = self._shapes.get(name) or pieces[0][1].shape
        if len(kinds) > 1 or not cover(shape, [(start, entry.shape) for start, entry, _ in pieces]):
            raise self._error(
                f"the pieces of {name!r:.80} do not make up one tensor of shape {list(shape)}: "
                "they overlap, leave elements out, or differ in dtype"
            )
        return Stored(NUMPY_DTYPES[kinds.pop()], shape, pieces)

    def read(self, stored: Stored, region: Sequence[slice] | None = None) -> np.ndarray:
        """The elements of a region; reads only bytes that overlap it.

        Args:
            stored: The tensor.
            region: A slice with a step of 1 for each dimension; by default the whole.

        Raises:
            CheckpointError: A part does not have the elements.
        """
        return assembled(stored, region, self._box)

    def _box(self, part: str, entry: Entry, box: list[tuple[int, int]]) -> np.ndarray:
        source, _ = self._open[part]
        of = np.dtype(NUMPY_DTYPES[entry.dtype])
        with self._named(part):
            found = _read_box(source, entry, of.itemsize, box)
        elements = found.view(np.uint8 if of == np.bool_ else of)
        shape = [b - a for a, b in box]
        return (elements != 0 if of == np.bool_ else elements).reshape(shape)

    def _entry(self, piece: Piece) -> Entry:
        if piece.part not in self._open:
            self._open_part(piece.part)
        entry = self._open[piece.part][1].get(piece.key)
        if entry is not None:
            return entry
        raise self._error(f"its part {piece.part!r:.80} does not hold {piece.key!r:.80}")

    def _open_part(self, part: str) -> Header:
        try:
            file = open(self.folder / part, "rb")  # noqa: SIM115 - closed with the checkpoint
        except FileNotFoundError:
            if self.path.name == part:
                raise
            raise self._error(f"its part {part!r:.80} is missing") from None
        self._files.callback(file.close)
        with self._named(part):
            source = Source(file)
            header = header_of(source, self.budget)
        self._open[part] = source, {each.name: each for each in header.entries}
        return header

    @contextlib.contextmanager
    def _named(self, part: str) -> Any:
        try:
            yield
        except CheckpointError as error:
            error.file = repr(os.fspath(self.folder / part))
            raise

    def _take_file(self, name: str) -> None:
        header = self._open_part(name)
        with self._named(name):
            own = own_facts(header.texts)
        self.texts = {key: text for key, text in header.texts.items() if key != OWN_KEY}
        for each in header.entries:
            self._pieces[each.name] = [Piece(each.name, name, ())]
        self._tied = {a: b for a, b in own.shared.items() if b in self._pieces}

    def _take_index(self, source: Source) -> None:
        self.budget.take(TIMES_THE_TEXT * source.size, "the index")
        try:
            text = source.read(0, source.size).decode()
        except UnicodeDecodeError as error:
            raise DamagedFileError(f"it is not text: {error}") from None
        index = of_json(text, "the index")
        weights: Any = index.get("weight_map")
        if not _is_text_by_text(weights):
            raise DamagedFileError("its weight_map is not the name of a part for each tensor")
        for part in {*weights.values()}:
            check_part_name(part)
        metadata = index.get("metadata")
        self.texts = dict(metadata) if isinstance(metadata, dict) else {}
        facts = self.texts.pop(OWN_KEY, None)
        self.facts = facts if isinstance(facts, dict) else {}
        self._take_pieces(weights, self.facts.get("divided", {}), self.facts.get("tied", {}))

    def _take_pieces(self, weights: dict[str, str], divided: Any, tied: Any) -> None:
        taken: set[str] = set()
        try:
            for name, (shape, pieces) in divided.items():
                self._shapes[name] = checked_shape(shape, 1)
                found = [Piece(key, weights[key], tuple(at)) for key, at in pieces.items()]
                if not found or any(type(n) is not int for each in found for n in each.start):
                    raise ValueError
                if not taken.isdisjoint(pieces) or name in weights:
                    raise ValueError
                self._pieces[name] = found
                taken.update(pieces)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise DamagedFileError(
                "its entries about divided tensors contradict each other"
            ) from None
        if not _is_text_by_text(tied):
            raise DamagedFileError("its entries about tied tensors are not names by name")
        for key, part in weights.items():
            if key not in taken:
                self._pieces[key] = [Piece(key, part, ())]
        self._tied = {a: b for a, b in tied.items() if b in self._pieces}

    def _error(self, reason: str) -> CheckpointError:
        return CheckpointError(reason, file=repr(os.fspath(self.path)))


def assembled(
    stored: Stored,
    region: Sequence[slice] | None,
    box: Callable[[str, Any, list[tuple[int, int]]], np.ndarray],
) -> np.ndarray:
    """The elements of a region of a tensor, from the pieces that overlap it.

    Args:
        stored: The tensor.
        region: A slice with a step of 1 for each dimension; by default the whole.
        box: The elements of a piece, from its part, its place there, and the first position and
            the end along each dimension.
    """
    region = (slice(None),) * len(stored.shape) if region is None else region
    bounds = [each.indices(n)[:2] for each, n in zip(region, stored.shape, strict=True)]
    low = [start for start, _ in bounds]
    result = np.zeros([max(end - start, 0) for start, end in bounds], stored.dtype)
    for start, place, part in stored.pieces:
        # The intersection of the region and the piece, in the coordinates of each.
        ends = [a + size for a, size in zip(start, place.shape, strict=True)]
        first = [max(a, start[i]) for i, (a, _) in enumerate(bounds)]
        last = [min(b, ends[i]) for i, (_, b) in enumerate(bounds)]
        if any(a >= b for a, b in zip(first, last, strict=True)):
            continue
        inside = [(a - s, b - s) for a, b, s in zip(first, last, start, strict=True)]
        into = tuple(slice(a - s, b - s) for a, b, s in zip(first, last, low, strict=True))
        result[into] = box(part, place, inside)
    return result


def check_part_name(part: str) -> None:
    """Fail unless a name in an index is that of a file in the same folder.

    Raises:
        RefusedContentError: It is not.
    """
    if Path(part).name != part or part in ("", ".", "..") or not part.isprintable():
        raise RefusedContentError(f"its part {part!r:.80} is not a file beside it")


def cover(shape: tuple[int, ...], boxes: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> bool:
    """Whether boxes (start and shape each) are a grid that covers all elements of ``shape``.

    A mesh cuts each dimension separately, so pieces always form a grid.
    """
    if any(not len(start) == len(size) == len(shape) for start, size in boxes):
        return False
    cuts = [{(start[i], start[i] + size[i]) for start, size in boxes} for i in range(len(shape))]
    for whole, found in zip(shape, cuts, strict=True):
        end = 0
        for first, last in sorted(found):
            if first != end:
                return False
            end = last
        if end != whole:
            return False
    return len({*boxes}) == len(boxes) == math.prod(map(len, cuts))


def _is_text_by_text(found: Any) -> bool:
    return isinstance(found, Mapping) and all(isinstance(each, str) for each in found.values())


def _index_or_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    for name in (INDEX, SINGLE):
        if (path / name).exists():
            return path / name
    raise CheckpointError(
        f"the folder holds no complete checkpoint: neither {INDEX}, {SINGLE} nor .metadata",
        file=repr(os.fspath(path)),
    )


def _size_beside(path: Path) -> int:
    """The bytes of an index and of the files in its folder; for any other file, its own."""
    if path.suffix != ".json":
        return path.stat().st_size
    return folder_size(path.parent)


def folder_size(folder: Path) -> int:
    """The bytes of the files in a folder."""
    with os.scandir(folder) as entries:
        return sum(each.stat().st_size for each in entries if each.is_file())


def _read_box(
    source: Source, entry: Entry, itemsize: int, box: list[tuple[int, int]]
) -> np.ndarray:
    """The bytes of a box, in order."""
    # After the last dimension that is cut, the bytes are contiguous.
    whole = [(0, n) for n in entry.shape]
    cut = [i for i, each in enumerate(box) if each != whole[i]]
    last = cut[-1] if cut else 0
    inner = itemsize * math.prod(entry.shape[last + 1 :])
    if not box or all(n == 1 for n in entry.shape[:last]):
        a, b = box[last] if box else (0, 1)
        return source.elements(entry.start + a * inner, (b - a) * inner)
    low, high = box[last]
    row, count = entry.shape[last] * inner, (high - low) * inner
    outer = np.arange(math.prod(entry.shape[:last])).reshape(entry.shape[:last])
    rows = outer[tuple(slice(a, b) for a, b in box[:last])].reshape(-1)
    result = np.empty((len(rows), count), np.uint8)
    at_once = max(_BLOCK // row, 1) if count <= _PAGE else 1
    i = 0
    while i < len(rows):
        first, j = int(rows[i]), i + 1
        # Consecutive rows, as many as are read at once.
        while j < len(rows) and j - i < at_once and rows[j] == first + j - i:
            j += 1
        begin = entry.start + first * row + low * inner
        size = (j - i - 1) * row + count
        found = np.frombuffer(source.read(begin, size), np.uint8)
        if j - i == 1:
            result[i] = found
        else:
            spaced = np.lib.stride_tricks.as_strided(found, (j - i, count), (row, 1))
            result[i:j] = spaced
        i = j
    return result.reshape(-1)
