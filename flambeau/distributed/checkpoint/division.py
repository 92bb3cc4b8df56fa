"""The assignment of elements to processes and files, computed identically by every process."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import jax

__all__ = ["Box", "Part", "divided", "part_name"]

#: The maximum bytes of elements in a part, unless a single tensor is larger.
LARGEST_PART = 5 * 10**9


class Box(NamedTuple):
    """Elements of an array that one process writes together.

    Attributes:
        key: The name in the part: the tensor's name, if the box is the whole tensor.
        name: The tensor's name.
        start: The position of the first element along each dimension.
        shape: The number of elements along each dimension.
        size: The number of bytes.
    """

    key: str
    name: str
    start: tuple[int, ...]
    shape: tuple[int, ...]
    size: int


class Part(NamedTuple):
    """A file: the process that writes it, and its content."""

    process: int
    boxes: list[Box]


def divided(arrays: dict[str, jax.Array], processes: int) -> list[Part]:
    """The parts that each process writes.

    An array that one process holds completely is written as a whole, so that other programs can
    read its file. Elements on several processes are written by the process with the fewest bytes.

    Args:
        arrays: By name.
        processes: The number of processes.
    """
    load = [0] * processes
    boxes: list[list[Box]] = [[] for _ in range(processes)]
    for name, array in arrays.items():
        holders = _holders(array)
        everywhere = set.intersection(*holders.values())
        if everywhere:
            whole = tuple((0, n) for n in array.shape)
            holders = {whole: everywhere}
        for region, candidates in holders.items():
            process = min(candidates, key=lambda each: (load[each], each))
            start, shape = tuple(a for a, _ in region), tuple(b - a for a, b in region)
            size = array.dtype.itemsize * math.prod(shape)
            key = name if everywhere else _piece_name(name, region)
            boxes[process].append(Box(key, name, start, shape, size))
            load[process] += size
    return [
        Part(process, part) for process in range(processes) for part in _in_parts(boxes[process])
    ]


def part_name(token: str, number: int, count: int, suffix: str) -> str:
    """The name of a part of a checkpoint."""
    return f"model-{token}-{number + 1:05}-of-{count:05}.{suffix}"


def _holders(array: jax.Array) -> dict[tuple[tuple[int, int], ...], set[int]]:
    """The processes that hold each region of an array."""
    if array.is_fully_addressable:
        # This process's own array, of which the others have an equal one, or there are no others.
        return {tuple((0, n) for n in array.shape): {0}}
    found: dict[tuple[tuple[int, int], ...], set[int]] = {}
    for device, index in array.sharding.devices_indices_map(array.shape).items():
        region = region_of(index, array.shape)
        found.setdefault(region, set()).add(device.process_index)
    return found


def region_of(index: Iterable[slice], shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """The start and end positions along each dimension."""
    return tuple(each.indices(n)[:2] for each, n in zip(index, shape, strict=True))


def _piece_name(name: str, region: tuple[tuple[int, int], ...]) -> str:
    return f"{name}[{', '.join(f'{a}:{b}' for a, b in region)}]"


def _in_parts(boxes: list[Box]) -> list[list[Box]]:
    parts: list[list[Box]] = []
    size = LARGEST_PART
    for box in boxes:
        if size + box.size > LARGEST_PART and (not parts or parts[-1]):
            parts.append([])
            size = 0
        parts[-1].append(box)
        size += box.size
    return parts
