"""Which arrays a program may overwrite: those that nobody but their Cell holds."""

from __future__ import annotations

from collections.abc import Iterable
from sys import getrefcount
from typing import Any

import jax.numpy as jnp

from flambeau.core.cell import Cell


def take(cells: Iterable[Cell]) -> list[Any]:
    """The arrays of ``cells``, to be donated: copies of those that others hold as well."""
    arrays = []
    for cell in cells:
        array = cell.array
        arrays.append(jnp.copy(array) if getrefcount(array) > _ALONE else array)
    return arrays


def _count_when_alone() -> int:
    """What `getrefcount` says, in the place where `take` asks, of an array nobody else holds."""
    counts = []
    for cell in [Cell(object())]:
        array = cell.array
        counts.append(getrefcount(array))
    return counts[0]


_ALONE = _count_when_alone()
