"""The loader: batches of a dataset, in the order of a sampler, prepared here or by workers."""

from __future__ import annotations

import itertools
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeAlias, TypeVar

from flambeau.core.support.tracebacks import trimmed
from flambeau.core.support.warning import warn
from flambeau.random.generator import Generator
from flambeau.utils.data import workers
from flambeau.utils.data.collate import default_collate, default_convert
from flambeau.utils.data.dataset import IterableDataset
from flambeau.utils.data.fetching import DatasetKind, fetcher
from flambeau.utils.data.main_script import is_unguarded
from flambeau.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    draw_seed,
)
from flambeau.utils.data.workers import CannotBeSentError, Job, Workers, get_worker_info

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

SampleT_co = TypeVar("SampleT_co", covariant=True)

# The start methods for workers. A fork would copy JAX's locks, but not the threads that hold them.
_START_METHODS = ("spawn", "forkserver")
_FIXED = frozenset(
    ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
)


class DataLoader(Generic[SampleT_co]):
    """Iterates over a dataset in batches; each iteration is one epoch.

    For equal seeds the batches equal PyTorch's, and each iteration draws the same numbers from the
    default generator as in PyTorch.

    Args:
        dataset: A `Dataset`, or any object with ``__getitem__`` and ``__len__``; or an
            `IterableDataset`.
        batch_size: The number of samples in a batch; ``None`` yields samples instead of batches.
        shuffle: Whether to shuffle the samples at each iteration.
        sampler: The indices of the samples, in order; instead of ``shuffle``.
        batch_sampler: Lists of the indices of the batches; instead of ``batch_size``,
            ``shuffle``, ``sampler`` and ``drop_last``.
        num_workers: The number of worker processes; 0 to prepare batches in this process. Workers
            are new processes that import the main script: its actions must be under ``if __name__
            == "__main__":``, and all objects that workers need must be picklable.
        collate_fn: Creates a batch from a list of samples, by default `default_collate`; with
            ``batch_size=None`` it converts a sample, by default `default_convert`.
        pin_memory: Accepted for compatibility; JAX decides how it moves memory.
        drop_last: Whether to drop a last batch that is smaller than the others.
        timeout: The seconds to wait for a worker; 0 for no limit.
        worker_init_fn: Called in each worker with its index, after its seeds are set.
        multiprocessing_context: The start method of workers: ``"spawn"``, the default,
            ``"forkserver"``, or a ``multiprocessing`` context of these kinds.
        generator: The generator for shuffling and for the seeds of workers; by default the default
            generator.
        prefetch_factor: The number of batches that each worker prepares ahead; 2 by default.
        persistent_workers: Whether the workers are kept for the next iteration.
        pin_memory_device: Accepted for PyTorch's sake.
        in_order: Whether batches are returned in the order of the sampler, even if a later one is
            ready.

    Raises:
        ValueError: Options exclude each other, or are out of range.
        TypeError: ``multiprocessing_context`` is neither a string nor a context.

    >>> import flambeau
    >>> from flambeau.utils.data import DataLoader
    >>> loader = DataLoader([(0.5, "a"), (1.5, "b"), (2.5, "c")], batch_size=2)
    >>> for x, name in loader:
    ...     print(x, name)
    tensor([0.5000, 1.5000], dtype=flambeau.float64) ('a', 'b')
    tensor([2.5000], dtype=flambeau.float64) ('c',)
    """

    _is_made = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        is_iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind = DatasetKind.Iterable if is_iterable else DatasetKind.Map
        if is_iterable:
            _refuse_order(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler and shuffle exclude each other; leave one out")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler excludes batch_size, shuffle, sampler and drop_last; "
                    "leave them out"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None makes no batches, so drop_last must be False")
        if sampler is None:
            if is_iterable:
                sampler = _NoIndices()
            else:
                shuffled = bool(shuffle)
                sampler = (
                    RandomSampler(dataset, generator=generator)
                    if shuffled
                    else SequentialSampler(dataset)
                )
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)

        self.dataset: Any = dataset
        self.num_workers = num_workers
        self.prefetch_factor: int | None = (
            2 if num_workers and prefetch_factor is None else prefetch_factor
        )
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._IterableDataset_len_called: int | None = None
        self._iterator: Any = None
        self._is_made = True
        self.check_worker_number_rationality()

    @property
    def multiprocessing_context(self) -> Any:
        """The context that starts workers, or ``None`` for the default one."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self._context = None if context is None else _checked_context(context, self.num_workers)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_made and name in _FIXED:
            raise ValueError(
                f"{name} cannot be changed after the {type(self).__name__} is made; make another"
            )
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self) -> LoaderIterator:
        seed = draw_seed(self.generator)
        if not self.num_workers and self.timeout:
            raise AssertionError("timeout is for workers; without any it must be 0")
        if not self.num_workers:
            return HereIterator(self, seed)
        self.check_worker_number_rationality()
        if is_unguarded():
            reason = (
                "workers are new processes, which import the main script, and what it does is not "
                'under `if __name__ == "__main__":`'
            )
        else:
            try:
                return WorkersIterator(self, seed)
            except CannotBeSentError as error:
                reason = str(error)
        warn(f"DataLoader prepares batches in this process: {reason}")
        return HereIterator(self, seed)

    def __iter__(self) -> Any:
        if not (self.persistent_workers and self.num_workers):
            return self._get_iterator()
        if self._iterator is None:
            iterator = self._get_iterator()
            if not isinstance(iterator, WorkersIterator):
                return iterator
            self._iterator = iterator
        else:
            self._iterator.start_again(self)
        return self._iterator

    def __len__(self) -> int:
        if self._dataset_kind == DatasetKind.Map:
            return len(self._index_sampler)
        count = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than CPUs that this process may use."""
        affinity = getattr(os, "sched_getaffinity", None)
        cpus = len(affinity(0)) if affinity else os.cpu_count()
        if self.num_workers and cpus is not None and self.num_workers > cpus:
            warn(
                f"num_workers={self.num_workers} is more than the {cpus} CPUs that there are, "
                "which makes loading slower",
            )


class _NoIndices(Sampler[None]):
    """Replaces the indices of samples that have none."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(f"num_workers must not be negative, got {num_workers}")
    if timeout < 0:
        raise ValueError(f"timeout must not be negative, got {timeout}")
    if not num_workers and prefetch_factor is not None:
        raise ValueError("prefetch_factor needs workers; pass num_workers > 0 or leave it out")
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError(f"prefetch_factor must not be negative, got {prefetch_factor}")
    if persistent_workers and not num_workers:
        raise ValueError("persistent_workers needs workers; pass num_workers > 0 or leave it out")


def _refuse_order(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"an IterableDataset has an order of its own; leave out {name}={value!r}"
            )


def _checked_context(context: Any, num_workers: int) -> BaseContext:
    if not num_workers:
        raise ValueError("multiprocessing_context needs workers; pass num_workers > 0")
    if not isinstance(context, str | BaseContext):
        raise TypeError(
            f"multiprocessing_context must be a string or a context, got {type(context).__name__}"
        )
    name = context if isinstance(context, str) else context.get_start_method()
    available = [each for each in _START_METHODS if each in multiprocessing.get_all_start_methods()]
    if name not in available:
        raise ValueError(
            f"multiprocessing_context must be one of {available}, got {name!r}; "
            "JAX runs threads, with which processes must not be forked"
        )
    return multiprocessing.get_context(context) if isinstance(context, str) else context


class LoaderIterator:
    """One epoch of a `DataLoader`.

    Args:
        loader: The loader.
        base_seed: The seed of the workers' random numbers; by default drawn from the loader's
            generator.
    """

    def __init__(self, loader: DataLoader[Any], base_seed: int | None = None) -> None:
        self._dataset = loader.dataset
        self._is_iterable = loader._dataset_kind == DatasetKind.Iterable
        self._announced = loader._IterableDataset_len_called
        self._index_sampler = loader._index_sampler
        self._indices = iter(self._index_sampler)
        self._base_seed = draw_seed(loader.generator) if base_seed is None else base_seed
        self._given = 0

    def __iter__(self) -> LoaderIterator:
        return self

    @trimmed
    def __next__(self) -> Any:
        data = self._next_data()
        self._given += 1
        if self._is_iterable and self._announced is not None and self._given > self._announced:
            warn(
                f"the length of {type(self._dataset).__name__} is {self._announced}, but "
                f"{self._given} have come; with workers, each must give a part of them (see "
                "get_worker_info)",
            )
        return data

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled; pickle the loader")


class HereIterator(LoaderIterator):
    """An epoch prepared in this process, on demand."""

    def __init__(self, loader: DataLoader[Any], base_seed: int | None = None) -> None:
        super().__init__(loader, base_seed)
        self._fetch = fetcher(
            loader.dataset, self._is_iterable, loader._auto_collation, loader.collate_fn,
            loader.drop_last,
        )  # fmt: skip

    def _next_data(self) -> Any:
        return self._fetch(next(self._indices))


class WorkersIterator(LoaderIterator):
    """An epoch prepared by workers, which get the indices in rotation."""

    def __init__(self, loader: DataLoader[Any], base_seed: int | None = None) -> None:
        super().__init__(loader, base_seed)
        if not loader.prefetch_factor:
            raise AssertionError("prefetch_factor must be positive")
        self._limit = loader.prefetch_factor * loader.num_workers
        self._timeout = loader.timeout
        self._in_order = loader.in_order
        self._is_persistent = loader.persistent_workers
        job = Job(
            loader.dataset, self._is_iterable, loader._auto_collation, loader.collate_fn,
            loader.drop_last, self._base_seed, loader.worker_init_fn, loader.num_workers,
        )  # fmt: skip
        context = loader.multiprocessing_context or multiprocessing.get_context("spawn")
        self._workers = Workers(job, context)
        # The workers of the pending batches, in the order of the batches.
        self._under_way: deque[int] = deque()
        self._begin(loader)

    def start_again(self, loader: DataLoader[Any]) -> None:
        """Start another epoch with the same workers."""
        while self._under_way:
            self._receive()
        self._workers.restart()
        self._begin(loader)

    def _begin(self, loader: DataLoader[Any]) -> None:
        # PyTorch restarts the sampler here, and so draws from a generator as often.
        self._indices = iter(self._index_sampler)
        self._announced = loader._IterableDataset_len_called
        self._given = 0
        self._active = [True] * loader.num_workers
        self._turn = itertools.cycle(range(loader.num_workers))
        for _ in range(self._limit):
            self._send()

    def _next_data(self) -> Any:
        while self._under_way:
            worker, kind, content = self._receive()
            if kind == workers.ENDED:
                if not self._is_iterable:
                    raise StopIteration
                if self._active[worker]:
                    self._active[worker] = False
                    self._send()
                continue
            self._send()
            if kind == workers.FAILED:
                workers.raise_from_worker(*content)
            return content
        if not self._is_persistent:
            self._workers.stop()
        raise StopIteration

    def _send(self) -> None:
        """Send the next index to the next worker, if there are both."""
        try:
            index = next(self._indices)
        except StopIteration:
            return
        for _ in self._active:
            worker = next(self._turn)
            if self._active[worker] and (self._in_order or self._has_room(worker)):
                self._workers.send(worker, index)
                self._under_way.append(worker)
                return

    def _has_room(self, worker: int) -> bool:
        return self._under_way.count(worker) < self._limit // sum(self._active)

    def _receive(self) -> tuple[int, str, Any]:
        """The next reply: for the next batch or, if the order does not matter, for any."""
        if self._in_order:
            asked = {self._under_way[0]}
        else:
            asked = set(self._under_way)
        reply = self._workers.receive(asked, self._timeout)
        self._under_way.remove(reply[0])
        return reply


# PyTorch's names, which packages with custom loaders import.
_collate_fn_t: TypeAlias = Callable[[list[Any]], Any]
_DatasetKind = DatasetKind
_BaseDataLoaderIter = LoaderIterator
_SingleProcessDataLoaderIter = HereIterator
_MultiProcessingDataLoaderIter = WorkersIterator
