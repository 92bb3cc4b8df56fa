"""The forms of a checkpoint's folder: what a snapshot holds, and what writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from flambeau.distributed.checkpoint.division import Box, region_of

__all__ = ["Form", "Place", "Snapshot", "elements_of"]


class Snapshot(NamedTuple):
    """A consistent snapshot of the state to write.

    Attributes:
        arrays: The elements of tensors by name.
        tied: For each further name of a tensor, the name in ``arrays``.
        values: Values other than tensors, by name.
        paths: The keys that lead to each tensor and value in the state dict, by name.
        token: Distinguishes the checkpoint from all others, and is the same on all processes.
        for_torch: Whether PyTorch's ``distributed.checkpoint`` is to read it.
    """

    arrays: dict[str, jax.Array]
    tied: dict[str, str]
    values: dict[str, Any]
    paths: dict[str, tuple[str | int, ...]]
    token: str
    for_torch: bool


class Place(NamedTuple):
    """The bytes of a part that hold a box or a value."""

    part: str
    start: int
    length: int


class Form(NamedTuple):
    """The form of a folder.

    Attributes:
        suffix: Of the names of parts.
        index_name: The name of the file that commits the checkpoint.
        write_part: Writes a new file of boxes; returns their places, if the index needs them.
        write_values: Writes the values other than tensors; likewise.
        write_index: Replaces the index, given the parts with their names, and the places.
    """

    suffix: str
    index_name: str
    write_part: Callable[[Path, list[tuple[Box, jax.Array]]], dict[str, Place]]
    write_values: Callable[[Path, Snapshot], dict[str, Place]]
    write_index: Callable[..., None]


def elements_of(array: jax.Array, box: Box) -> np.ndarray:
    """The elements of a box, collected from this process's devices."""
    shards = [(region_of(each.index, array.shape), each) for each in array.addressable_shards]
    ends = [a + n for a, n in zip(box.start, box.shape, strict=True)]
    for region, shard in shards:
        if region == tuple(zip(box.start, ends, strict=True)):
            return np.asarray(shard.data, order="C")
    found = np.empty(box.shape, array.dtype)
    for region, shard in dict(shards).items():
        place = tuple(slice(a - s, b - s) for (a, b), s in zip(region, box.start, strict=True))
        found[place] = np.asarray(shard.data)
    return found
