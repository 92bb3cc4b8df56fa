"""Which arrays a program may overwrite: those that only the call of the program holds."""

from __future__ import annotations

import os
from sys import getrefcount
from typing import Any

import jax

# Programs that overwrite nothing need more memory, but lose nothing if they fail.
_IS_ALLOWED = os.environ.get("FLAMBEAU_DONATE") != "0"


def donated(positions: tuple[int, ...]) -> tuple[int, ...]:
    """The positions of a program's arguments that it may overwrite, if it may overwrite any."""
    return positions if _IS_ALLOWED else ()


def owned(arrays: list[Any]) -> list[Any]:
    """``arrays``, those that others hold as well replaced by copies.

    Their Cells must be empty by now, so that no other code can get hold of one.
    """
    # All counted at once: with many parameters a loop here is a good part of the time of a step.
    counts = [*map(getrefcount, arrays)]
    if counts == [_ALONE] * len(counts):
        return arrays
    return [
        # Not `jnp.copy`, which is a program to compile for every shape.
        jax.device_put(array, may_alias=False) if count > _ALONE else array
        for array, count in zip(arrays, counts, strict=True)
    ]


def _count_when_alone() -> int:
    """The count of `getrefcount`, asked as in `owned`, of an array without other references."""
    return max(map(getrefcount, [object()]))


_ALONE = _count_when_alone()
