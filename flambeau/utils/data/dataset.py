"""Datasets: sources of samples, by index or in sequence."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.random.generator import Generator, default_generator
from flambeau.utils.data.sampler import permutation

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset",
    "TensorDataset", "random_split",
]  # fmt: skip

T = TypeVar("T")
SampleT_co = TypeVar("SampleT_co", covariant=True)


class Dataset(Generic[SampleT_co]):
    """Samples by key, usually an index from 0 on.

    A subclass defines ``__getitem__``, and ``__len__``, which samplers need. If reading many
    samples at once is faster, it also defines ``__getitems__(indices)``, which returns a list of
    samples.
    """

    def __getitem__(self, index: Any) -> SampleT_co:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __add__(self, other: Dataset[Any]) -> Any:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[SampleT_co], Iterable[SampleT_co]):
    """Samples in sequence, as from a stream; a subclass defines ``__iter__``.

    Each worker of a `DataLoader` has its own copy. Use `get_worker_info` in ``__iter__`` or in
    ``worker_init_fn`` to make the copies return different samples.
    """

    def __add__(self, other: Dataset[Any]) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample i is the tuple of the tensors' elements at i in their first dimension.

    A `DataLoader` with the default collation reads the rows of a batch at once.

    Args:
        tensors: Tensors of the same size in the first dimension.

    Raises:
        AssertionError: The sizes differ.

    >>> import flambeau
    >>> from flambeau.utils.data import TensorDataset
    >>> data = TensorDataset(flambeau.tensor([[1.0], [2.0]]), flambeau.tensor([0, 1]))
    >>> data[1]
    (tensor([2.]), tensor(1))
    """

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [tensor.size(0) for tensor in tensors]
        if len(set(sizes)) > 1:
            raise AssertionError(f"tensors must have one size in the first dimension, got {sizes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Sample i holds the samples of several datasets at i, as a tuple or as a dictionary.

    Args:
        args: The datasets, for tuples.
        kwargs: The datasets by name, for dictionaries.

    Raises:
        ValueError: There are both, or none, or their lengths differ.
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            given = "both" if args else "none"
            raise ValueError(
                f"StackDataset takes datasets either by position or by name, got {given}"
            )
        self.datasets = args or kwargs
        lengths = [len(each) for each in args or kwargs.values()]
        if len(set(lengths)) > 1:
            raise ValueError(f"StackDataset takes datasets of one length, got {lengths}")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: each[index] for name, each in self.datasets.items()}
        return tuple(each[index] for each in self.datasets)

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """The samples at ``indices``."""
        if isinstance(self.datasets, dict):
            columns = [_samples(each, indices) for each in self.datasets.values()]
            names = list(self.datasets)
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*(_samples(each, indices) for each in self.datasets), strict=True))

    def __len__(self) -> int:
        return self._length


def _samples(dataset: Any, indices: list[Any]) -> list[Any]:
    at_once = getattr(dataset, "__getitems__", None)
    if not callable(at_once):
        return [dataset[index] for index in indices]
    found: Any = at_once(indices)
    if len(found) != len(indices):
        raise ValueError(
            f"{type(dataset).__name__}.__getitems__ must give a sample for each of the "
            f"{len(indices)} indices, got {len(found)}"
        )
    return found


class ConcatDataset(Dataset[SampleT_co]):
    """The concatenated samples of several datasets.

    Args:
        datasets: At least one dataset, with lengths.

    Raises:
        AssertionError: There is no dataset, or one is an `IterableDataset`.
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets: list[Dataset[Any]] = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset needs at least one dataset")
        if any(isinstance(each, IterableDataset) for each in self.datasets):
            raise AssertionError("ConcatDataset takes no IterableDataset; use ChainDataset")
        self.cumulative_sizes: list[int] = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """The cumulative numbers of samples of the datasets."""
        return list(itertools.accumulate(len(each) for each in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Any:
        if idx < 0:
            if -idx > len(self):
                raise ValueError(f"index {idx} reaches before the first of {len(self)} samples")
            idx += len(self)
        found = bisect.bisect_right(self.cumulative_sizes, idx)
        start = self.cumulative_sizes[found - 1] if found else 0
        return self.datasets[found][idx - start]


class ChainDataset(IterableDataset[Any]):
    """The samples of several `IterableDataset`, one dataset after the other.

    Raises:
        AssertionError: On reading the samples or the length: one is not an `IterableDataset`.
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def _iterable(self) -> Iterator[Any]:
        for each in self.datasets:
            if not isinstance(each, IterableDataset):
                raise AssertionError(
                    f"ChainDataset takes IterableDatasets, got a {type(each).__name__}"
                )
            yield each

    def __iter__(self) -> Iterator[Any]:
        for each in self._iterable():
            yield from each

    def __len__(self) -> int:
        return sum(len(each) for each in self._iterable())


class Subset(Dataset[SampleT_co]):
    """The samples of a dataset at some indices.

    Args:
        dataset: The dataset.
        indices: The indices.

    Raises:
        NotImplementedError: A subclass overrides ``__getitem__`` without ``__getitems__``, which a
            `DataLoader` calls.
    """

    def __init__(self, dataset: Dataset[SampleT_co], indices: Sequence[Any]) -> None:
        own = type(self)
        if own.__getitem__ is not Subset.__getitem__ and own.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{own.__name__} overrides __getitem__ but not __getitems__, which a DataLoader "
                "asks; let it return [self[i] for i in indices]"
            )
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """The samples at ``indices`` of the subset."""
        chosen = [self.indices[i] for i in indices]
        at_once = getattr(self.dataset, "__getitems__", None)
        if callable(at_once):
            found: Any = at_once(chosen)
            return found
        return [self.dataset[index] for index in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[T],
    lengths: Sequence[int | float],
    generator: Generator | None = default_generator,
) -> list[Subset[T]]:
    """The shuffled samples of a dataset, split into subsets; equal to PyTorch's for equal seeds.

    Args:
        dataset: The dataset, which must have a length.
        lengths: The lengths of the subsets; or fractions that sum to 1, which are rounded down,
            with the remaining samples going one each to the first subsets.
        generator: The generator of the order.

    Raises:
        ValueError: The lengths do not add up to that of the dataset, or a fraction is negative.

    >>> from flambeau import Generator
    >>> from flambeau.utils.data import random_split
    >>> [list(part) for part in random_split(range(5), [3, 2], Generator().manual_seed(0))]
    [[4, 0, 1], [3, 2]]
    """
    total: int = len(dataset)  # pyright: ignore[reportArgumentType]
    sizes: list[Any] = list(lengths)
    if math.isclose(sum(sizes), 1) and sum(sizes) <= 1:
        sizes = _sizes_of_fractions(sizes, total)
    if sum(sizes) != total:
        raise ValueError(
            f"lengths add up to {sum(sizes)}, but the dataset has {total} samples; "
            "pass lengths that add up to it, or fractions that add up to 1"
        )
    order = permutation(total, generator)
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def _sizes_of_fractions(fractions: list[float], total: int) -> list[int]:
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction {i} must be between 0 and 1, got {fraction}")
    sizes = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if not size:
            warn(f"part {i} of the dataset has no samples")
    return sizes
