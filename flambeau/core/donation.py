"""Which arrays a program may overwrite: those that only the call of the program holds.

References count that. They do not see arrays with the same memory, which JAX makes where it moves
an array to devices that have a part of it already, so arrays are moved by `put`.
"""

from __future__ import annotations

import os
from collections.abc import Container
from sys import getrefcount
from typing import Any

import jax
from jax.sharding import Sharding, SingleDeviceSharding

# Programs that overwrite nothing need more memory, but lose nothing if they fail.
_IS_ALLOWED = os.environ.get("FLAMBEAU_DONATE") != "0"


def donated(positions: tuple[int, ...]) -> tuple[int, ...]:
    """The positions of a program's arguments that it may overwrite, if it may overwrite any."""
    return positions if _IS_ALLOWED else ()


def owned(arrays: list[Any], held: Container[int] = ()) -> list[Any]:
    """``arrays``, those that others hold as well replaced by copies.

    Their Cells must be empty by now, so that no other code can get hold of one.

    Args:
        arrays: The arrays.
        held: The identities of those to which the call itself has one more reference.
    """
    # All counted at once: with many parameters a loop here is a good part of the time of a step.
    counts = [*map(getrefcount, arrays)]
    if counts == [_ALONE] * len(counts):
        return arrays
    return [
        copied(array) if count > _ALONE + (id(array) in held) else array
        for array, count in zip(arrays, counts, strict=True)
    ]


def copied(array: Any) -> Any:
    """A copy of an array, which lies as it does."""
    # Not `jnp.copy`, which is a program to compile for every shape.
    return jax.device_put(array, may_alias=False)


def put(array: Any, where: Any) -> Any:
    """A concrete array on a device, or as a sharding divides it, with memory of its own.

    An array that lies there already is given as it is.
    """
    sharding = where if isinstance(where, Sharding) else SingleDeviceSharding(where)
    if isinstance(array, jax.Array):
        if array.committed and array.sharding == sharding:
            return array
        if _have_a_part_in_common(array.shape, array.sharding, sharding):
            array = copied(array)
    return jax.device_put(array, sharding)


def _have_a_part_in_common(shape: tuple[int, ...], one: Sharding, other: Sharding) -> bool:
    """Whether a device has the same elements of an array under two shardings."""
    parts, others = one.devices_indices_map(shape), other.devices_indices_map(shape)
    return any(
        device in others and _bounds(part, shape) == _bounds(others[device], shape)
        for device, part in parts.items()
    )


def _bounds(part: Any, shape: tuple[int, ...]) -> list[tuple[int, int, int]]:
    return [each.indices(size) for each, size in zip(part, shape, strict=True)]


def _count_when_alone() -> int:
    """The count of `getrefcount`, asked as in `owned`, of an array without other references."""
    return max(map(getrefcount, [object()]))


_ALONE = _count_when_alone()
