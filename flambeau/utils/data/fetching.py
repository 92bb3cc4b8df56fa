"""Fetching a batch, or a sample, of a dataset for an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flambeau.utils.data.collate import default_collate, rows_of

Fetch = Callable[[Any], Any]


class DatasetKind:
    """The access of a loader to its dataset: by indices, or in sequence."""

    Map = 0
    Iterable = 1


def fetcher(
    dataset: Any, is_iterable: bool, in_batches: bool, collate_fn: Fetch, drop_last: bool
) -> Fetch:
    """The function that returns the sample for an index, or the batch for a list of indices.

    For an iterable dataset it takes the next samples, as many as there are indices, and raises
    StopIteration at the end.
    """
    if is_iterable:
        samples = iter(dataset)
        if in_batches:
            return _in_turn(samples, drop_last, collate_fn)
        return lambda index: collate_fn(next(samples))

    def by_index(index: Any) -> Any:
        if not in_batches:
            return collate_fn(dataset[index])
        if collate_fn is default_collate and (rows := rows_of(dataset, index)) is not None:
            return rows
        at_once = getattr(dataset, "__getitems__", None)
        return collate_fn(at_once(index) if at_once else [dataset[each] for each in index])

    return by_index


def _in_turn(samples: Iterator[Any], drop_last: bool, collate_fn: Fetch) -> Fetch:
    ended = False

    def fetch(indices: Any) -> Any:
        nonlocal ended
        batch: list[Any] = []
        if not ended:
            for _ in indices:
                try:
                    batch.append(next(samples))
                except StopIteration:
                    # An exhausted iterator must not be advanced again.
                    ended = True
                    break
        if not batch or (drop_last and len(batch) < len(indices)):
            raise StopIteration
        return collate_fn(batch)

    return fetch
