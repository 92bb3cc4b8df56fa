"""Which arrays a program may overwrite: those that nobody but their Cell holds."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from sys import getrefcount
from typing import Any

import jax

from flambeau.core.cell import Cell

_array_of = attrgetter("array")


def take(cells: Sequence[Cell]) -> list[Any]:
    """The arrays of ``cells``, to be donated: copies of those that others hold as well."""
    arrays = [*map(_array_of, cells)]
    # All counted at once: with many parameters a loop here is a good part of what a step costs.
    counts = [*map(getrefcount, arrays)]
    if counts != [_ALONE] * len(counts):
        for i, count in enumerate(counts):
            if count > _ALONE:
                # Not `jnp.copy`, which is a program to compile for every shape.
                arrays[i] = jax.device_put(arrays[i], may_alias=False)
    return arrays


def _count_when_alone() -> int:
    """What `getrefcount` says, asked as in `take`, of an array that nobody else holds."""
    cells = [Cell(object())]
    arrays = [*map(_array_of, cells)]
    return max(map(getrefcount, arrays))


_ALONE = _count_when_alone()
