"""Samplers: the order of samples. For equal seeds the indices equal PyTorch's."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from flambeau.core.support import dtype as dtypes
from flambeau.ops.draws.sampling import multinomial, randint, randperm
from flambeau.ops.factories.creation import empty
from flambeau.ops.factories.from_data import as_tensor
from flambeau.random.generator import Generator

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler",
    "WeightedRandomSampler",
]  # fmt: skip

IndexT_co = TypeVar("IndexT_co", covariant=True)


def draw_seed(generator: Generator | None) -> int:
    """A seed from 0 to 2**63 - 1, drawn from ``generator`` or the CPU's default one."""
    drawn: Any = empty((), dtype=dtypes.int64, device=_place(generator))
    return drawn.random_(generator=generator).item()


def permutation(n: int, generator: Generator | None) -> list[int]:
    """0 to n - 1 in random order."""
    return randperm(n, generator=generator, device=_place(generator)).tolist()


def _place(generator: Generator | None) -> Any:
    return "cpu" if generator is None else generator.device


class Sampler(Generic[IndexT_co]):
    """Yields indices of samples, or lists of indices for whole batches.

    A subclass defines ``__iter__``, and ``__len__`` if the number of indices is known.
    """

    def __iter__(self) -> Iterator[IndexT_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler[int]):
    """All indices of a dataset, from the first to the last."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices of a dataset in random order.

    Args:
        data_source: The dataset, which must have a length.
        replacement: Whether indices are drawn again each time, and so may repeat.
        num_samples: The number of indices; by default that of the samples. Without replacement,
            more than that continue with another permutation.
        generator: The generator. By default each iteration has a new one, seeded by one draw from
            the default generator.

    Raises:
        TypeError: ``replacement`` is not a bool.
        ValueError: ``num_samples`` is not a positive integer.

    >>> from flambeau import Generator
    >>> from flambeau.utils.data import RandomSampler
    >>> list(RandomSampler(range(5), generator=Generator().manual_seed(0)))
    [4, 0, 1, 3, 2]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement must be True or False, got {replacement!r}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples must be a positive integer, got {self.num_samples!r}")

    @property
    def num_samples(self) -> int:
        """The number of indices in an iteration."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(draw_seed(None))
        n = len(self.data_source)
        if self.replacement:
            # As in PyTorch, so that a shared generator has the same state at each index.
            for _ in range(self.num_samples // 32):
                yield from _integers(n, 32, generator)
            yield from _integers(n, self.num_samples % 32, generator)
        else:
            for _ in range(self.num_samples // n):
                yield from permutation(n, generator)
            yield from permutation(n, generator)[: self.num_samples % n]

    def __len__(self) -> int:
        return self.num_samples


def _integers(high: int, count: int, generator: Generator) -> list[int]:
    return randint(high, (count,), generator=generator, device=generator.device).tolist()


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order, drawn from ``generator`` or the default one."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in permutation(len(self.indices), self.generator):
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn in proportion to weights.

    Args:
        weights: One weight for each sample; they need not sum to 1.
        num_samples: The number of indices to draw.
        replacement: Whether an index can be drawn again.
        generator: The generator; by default the default generator.

    Raises:
        ValueError: ``num_samples`` is not a positive integer, ``replacement`` no bool, or the
            weights are not one-dimensional.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        check_positive("num_samples", num_samples)
        check_bool("replacement", replacement)
        self.weights: Any = as_tensor(weights, dtype=dtypes.float64)
        if self.weights.ndim != 1:
            raise ValueError(f"weights must have 1 dimension, got {self.weights.ndim}")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        ).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices of another sampler, in lists of ``batch_size``.

    Args:
        sampler: A sampler or any iterable.
        batch_size: The length of the lists.
        drop_last: Whether to drop a last, shorter list.

    Raises:
        ValueError: ``batch_size`` is not a positive integer, or ``drop_last`` no bool.

    >>> from flambeau.utils.data import BatchSampler
    >>> list(BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool
    ) -> None:
        check_positive("batch_size", batch_size)
        check_bool("drop_last", drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # pyright: ignore[reportArgumentType]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def check_positive(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")


def check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")
