"""Which arrays a program may overwrite: those that only its caller holds.

Reference counts decide. They miss two arrays that share memory, which JAX creates when it moves an
array to devices that hold a part of it already; `put` avoids that.
"""

from __future__ import annotations

import os
from collections.abc import Container, Sequence
from sys import getrefcount

import jax
from jax.sharding import Sharding, SingleDeviceSharding

from flambeau.core.types import JaxDevice

# Without donation a program needs more memory, but a failure loses nothing.
_IS_ALLOWED = os.environ.get("FLAMBEAU_DONATE") != "0"


def donated(positions: tuple[int, ...]) -> tuple[int, ...]:
    """The positions of the arguments that a program may overwrite; empty if donation is off."""
    return positions if _IS_ALLOWED else ()


def owned(arrays: list[jax.Array], held: Container[int] = ()) -> list[jax.Array]:
    """``arrays``, with those that other references hold replaced by copies.

    Their Cells must be empty, so that no other code can take a reference.

    Args:
        arrays: The arrays.
        held: The ids of arrays to which the caller holds one more reference.
    """
    # Count all at once: with many parameters a loop here takes a large share of a step.
    counts = [*map(getrefcount, arrays)]
    if counts == [_ALONE] * len(counts):
        return arrays
    return [
        copied(array) if count > _ALONE + (id(array) in held) else array
        for array, count in zip(arrays, counts, strict=True)
    ]


def copied(array: jax.Array) -> jax.Array:
    """A copy of an array with the same sharding."""
    # Not `jnp.copy`, which would compile a program for each shape.
    if array.is_fully_addressable:
        return jax.device_put(array, may_alias=False)
    # Other processes have the rest.
    parts = [jax.device_put(each.data, may_alias=False) for each in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(array.shape, array.sharding, parts)


def put(array: jax.typing.ArrayLike, where: JaxDevice | Sharding) -> jax.Array:
    """A concrete array on a device, or as a sharding divides it, in memory of its own.

    An array that is there already is returned unchanged.
    """
    sharding = where if isinstance(where, Sharding) else SingleDeviceSharding(where)
    if isinstance(array, jax.Array):
        if array.committed and array.sharding == sharding:
            return array
        if _have_a_part_in_common(array.shape, array.sharding, sharding):
            array = copied(array)
    return jax.device_put(array, sharding)


def _have_a_part_in_common(shape: tuple[int, ...], one: Sharding, other: Sharding) -> bool:
    """Whether some device holds the same elements of an array under both shardings."""
    parts, others = one.devices_indices_map(shape), other.devices_indices_map(shape)
    return any(
        device in others and _bounds(part, shape) == _bounds(others[device], shape)
        for device, part in parts.items()
    )


def _bounds(part: Sequence[slice], shape: tuple[int, ...]) -> list[tuple[int, int, int]]:
    return [each.indices(size) for each, size in zip(part, shape, strict=True)]


def _count_when_alone() -> int:
    """The `getrefcount` of an array without other references, called as in `owned`."""
    return max(map(getrefcount, [object()]))


_ALONE = _count_when_alone()
