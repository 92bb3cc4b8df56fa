"""Batches of sequences whose lengths differ, in few shapes: each shape is a program of its own."""

from __future__ import annotations

import functools
import numbers
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from flambeau.core.kernels.promotion import promote_types
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor
from flambeau.ops.factories.from_data import from_numpy
from flambeau.ops.neural.sequences.packed_sequences import pad_all, pad_arrays
from flambeau.random.generator import Generator
from flambeau.utils.data.collate import adopt, default_collate, on_host
from flambeau.utils.data.sampler import Sampler, check_bool, check_positive, permutation

__all__ = ["LengthGroupedBatchSampler", "PaddingCollator"]

_MASK = "attention_mask"


class LengthGroupedBatchSampler(Sampler[list[int]]):
    """Batches of samples of similar lengths, so that little is padded.

    Shuffled samples are sorted by length in groups of ``batches_per_group`` batches, and the
    batches of all groups are shuffled again. The order depends on ``seed`` and the epoch only. Each
    iteration is another epoch; `set_epoch` sets the next one, to repeat or resume.

    Args:
        lengths: The length of each sample: integers, or a tensor or array of them.
        batch_size: The number of samples in a batch.
        drop_last: Whether to leave out the samples that do not fill a batch.
        shuffle: Whether to shuffle; otherwise all samples are sorted by length.
        seed: The seed of the order, together with the epoch.
        batches_per_group: With more, batches have less padding and their samples are less random.

    Raises:
        TypeError: The lengths are not integers, one for each sample.
        ValueError: A length is negative, or another argument is out of range.

    >>> from flambeau.utils.data import LengthGroupedBatchSampler
    >>> lengths = [3, 40, 2, 41, 4, 39]
    >>> sampler = LengthGroupedBatchSampler(lengths, batch_size=3)
    >>> sorted([lengths[i] for i in batch] for batch in sampler)
    [[2, 3, 4], [39, 40, 41]]
    """

    def __init__(
        self,
        lengths: Sequence[int] | np.ndarray | Tensor,
        batch_size: int,
        drop_last: bool = False,
        *,
        shuffle: bool = True,
        seed: int = 0,
        batches_per_group: int = 50,
    ) -> None:
        check_positive("batch_size", batch_size)
        check_positive("batches_per_group", batches_per_group)
        check_bool("drop_last", drop_last)
        check_bool("shuffle", shuffle)
        self.lengths = _known_lengths(lengths)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = operator.index(seed)
        self.batches_per_group = batches_per_group
        self.epoch = 0

    def __iter__(self) -> Iterator[list[int]]:
        generator = Generator().manual_seed(self.seed + self.epoch)
        self.epoch += 1
        return self._batches(generator)

    def _batches(self, generator: Generator) -> Iterator[list[int]]:
        count, size = len(self.lengths), self.batch_size
        order = np.array(permutation(count, generator) if self.shuffle else range(count), np.int64)
        if self.drop_last:
            order = order[: count - count % size]
        in_group = size * self.batches_per_group if self.shuffle else max(count, 1)
        for start in range(0, len(order), in_group):
            group = order[start : start + in_group]
            order[start : start + in_group] = group[np.argsort(self.lengths[group], kind="stable")]
        batches = range(len(self))
        for i in permutation(len(self), generator) if self.shuffle else batches:
            yield order[i * size : (i + 1) * size].tolist()

    def __len__(self) -> int:
        count = len(self.lengths)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        self.epoch = epoch


def _known_lengths(lengths: Any) -> np.ndarray:
    try:
        known = np.asarray(lengths).astype(
            np.int64, casting="same_kind" if len(lengths) else "unsafe"
        )
    except (TypeError, ValueError):
        known = np.empty(())
    if known.ndim != 1:
        raise TypeError(
            "lengths must be one integer for each sample; compute them from a dataset, as in "
            "[len(each) for each in dataset]"
        )
    if (known < 0).any():
        raise ValueError(f"lengths must not be negative, got {known.min()}")
    return known


class PaddingCollator:
    """Collates sequences of several lengths, padded to a width from a small set, and their mask.

    For `DataLoader(collate_fn=...)`. By the kind of the samples:

    - a mapping: a dictionary, with the mask ``"attention_mask"`` unless samples have their own,
      which is then padded with 0;
    - a tuple: a tuple, with the mask at its end;
    - a sequence: the padded batch and the mask.

    A sequence is a tensor or array ``(length, ...)``, or a list of numbers. Sequences become
    ``(N, width, ...)`` of the same dtype; the width is at least the longest length, rounded up. All
    other entries are collated by `default_collate`. The mask ``(N, width)`` is True at the elements
    of the first sequence of each sample, and False at its padding.

    Args:
        padding_value: The padding value of all sequences. Or a mapping of the names (in tuples, the
            positions) of the sequences to their padding values; other entries are not padded.
        pad_to_multiple_of: Round widths up to a multiple of this.
        buckets: The widths; a batch gets the smallest that fits. Without either, a batch is as wide
            as its longest sequence.
        padding_side: ``"right"`` to pad after the sequences, ``"left"`` before them.

    Raises:
        TypeError: An entry is not a sequence, or samples have none.
        ValueError: An argument is out of range, or a sequence is longer than the last bucket.
        RuntimeError: Sequences differ in more than their length.

    >>> from flambeau.utils.data import PaddingCollator
    >>> collate = PaddingCollator({"tokens": 0, "labels": -100}, pad_to_multiple_of=4)
    >>> batch = collate(
    ...     [{"tokens": [5, 6, 7], "labels": [6, 7, 8]}, {"tokens": [9], "labels": [5]}]
    ... )
    >>> batch["labels"]
    tensor([[   6,    7,    8, -100],
            [   5, -100, -100, -100]])
    >>> batch["attention_mask"].sum(1)
    tensor([3, 1])
    """

    def __init__(
        self,
        padding_value: float | Mapping[Any, float] = 0,
        *,
        pad_to_multiple_of: int | None = None,
        buckets: Sequence[int] | None = None,
        padding_side: str = "right",
    ) -> None:
        if buckets is not None and pad_to_multiple_of is not None:
            raise ValueError("buckets and pad_to_multiple_of exclude each other; leave one out")
        if pad_to_multiple_of is not None:
            check_positive("pad_to_multiple_of", pad_to_multiple_of)
        if buckets is not None:
            buckets = sorted(map(operator.index, buckets))
            for width in buckets or [None]:
                check_positive("each width in buckets", width)
        values = padding_value.values() if isinstance(padding_value, Mapping) else [padding_value]
        if not all(isinstance(each, numbers.Number) for each in values):
            raise TypeError(f"padding_value must have numbers only, got {padding_value!r}")
        if padding_side not in ("left", "right"):
            raise ValueError(f"padding_side must be 'left' or 'right', got {padding_side!r}")
        self.padding_value = padding_value
        self.pad_to_multiple_of = pad_to_multiple_of
        self.buckets = buckets
        self.padding_side = padding_side

    def __call__(self, samples: Sequence[Any]) -> Any:
        """The batch of ``samples``."""
        columns = _columns_of(samples)
        values = self._values(columns)
        batch = {
            name: self._padded(name, column, values[name])
            if name in values
            else default_collate(column)
            for name, column in columns.items()
        }
        first = next(iter(values))
        mask = self._mask([len(each) for each in columns[first]], batch[first])
        if isinstance(samples[0], Mapping):
            return {**batch, _MASK: batch.get(_MASK, mask)}
        return (*batch.values(), mask)

    def _values(self, columns: dict[Any, Sequence[Any]]) -> dict[Any, float]:
        """The padding values by the names of the entries to pad."""
        given = self.padding_value
        if not isinstance(given, Mapping):
            given = {name: given for name, each in columns.items() if _is_sequence(each[0])}
        if not given or not given.keys() <= columns.keys():
            found = ", ".join(f"{name!r}: {type(e[0]).__name__}" for name, e in columns.items())
            raise TypeError(
                f"there is no sequence to pad for padding_value={self.padding_value!r}; the "
                f"samples' entries are {found}"
            )
        return {**given, _MASK: 0} if _MASK in columns else dict(given)

    def _width(self, longest: int) -> int:
        if self.buckets is None:
            unit = self.pad_to_multiple_of or 1
            return -(-max(longest, 1) // unit) * unit
        for width in self.buckets:
            if width >= longest:
                return width
        raise ValueError(
            f"a sequence of length {longest} is longer than all buckets {self.buckets}; add a "
            "bucket, or truncate the sequence"
        )

    def _padded(self, name: Any, column: Sequence[Any], value: float) -> Tensor:
        for number, each in enumerate(column):
            if not _is_sequence(each):
                raise TypeError(
                    f"{name!r} of sample {number} must be a tensor or array of 1 or more "
                    f"dimensions, or a list of numbers, got {type(each).__name__}"
                )
        width, is_left = self._width(max(map(len, column))), self.padding_side == "left"
        are_tensors = all(isinstance(each, Tensor) for each in column)
        arrays = on_host(column) if are_tensors else [_array_of(each) for each in column]
        if arrays is None:
            return pad_all(tuple(column), True, value, is_left, width)
        arrays = _alike(name, arrays, value)
        return adopt(pad_arrays(arrays, value, is_left, width), "cpu" if are_tensors else None)

    def _mask(self, lengths: list[int], batch: Tensor) -> Tensor:
        place = np.arange(batch.shape[1])[:: -1 if self.padding_side == "left" else 1]
        return from_numpy(place < np.array(lengths)[:, None]).to(batch.device)


def _columns_of(samples: Sequence[Any]) -> dict[Any, Sequence[Any]]:
    """The entries of samples by name or position."""
    first = samples[0]
    if isinstance(first, Mapping):
        return {name: [each[name] for each in samples] for name in first}
    if not isinstance(first, tuple):
        return {0: samples}
    sizes = {len(each) for each in samples}
    if len(sizes) > 1:
        raise RuntimeError(f"samples of a batch must have as many entries, got {sorted(sizes)}")
    return dict(enumerate(zip(*samples, strict=True)))


def _is_sequence(entry: Any) -> bool:
    if isinstance(entry, list):
        return not entry or isinstance(entry[0], list | float | int | np.number)
    is_array = isinstance(entry, np.ndarray) and entry.dtype.kind not in "SUO"
    return (is_array or isinstance(entry, Tensor)) and entry.ndim > 0


def _array_of(sequence: Any) -> np.ndarray:
    """A sequence as an array, Python floats in the default dtype."""
    try:
        array = np.asarray(sequence)
    except ValueError:
        raise RuntimeError("the lists within a sequence must have equal lengths") from None
    if isinstance(sequence, list) and array.dtype == np.float64:
        return array.astype(dtypes.get_default_dtype().numpy)
    return array


def _alike(name: Any, arrays: list[np.ndarray], value: float) -> list[np.ndarray]:
    """The arrays in one dtype, which has the padding value."""
    if len({each.shape[1:] for each in arrays}) > 1:
        raise RuntimeError(
            "sequences must differ in their first dimension only, got shapes "
            f"{', '.join(str(list(each.shape)) for each in arrays)} for {name!r}"
        )
    # An empty list has no dtype of its own.
    kinds = {dtypes.from_numpy_dtype(each.dtype) for each in arrays if len(each)}
    dtype = functools.reduce(promote_types, kinds).numpy if kinds else arrays[0].dtype
    with np.errstate(invalid="ignore"):
        if dtype.kind in "biu" and np.array(value).astype(dtype) != value:
            raise ValueError(f"the padding value {value} of {name!r} is not a value of {dtype}")
    return [each.astype(dtype, copy=False) for each in arrays]
