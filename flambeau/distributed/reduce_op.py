"""Reductions over the processes of a group."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

__all__ = ["ReduceOp"]


class ReduceOp(enum.Enum):
    """Reductions over the processes of a group."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


#: On an array with a row for each process.
REDUCTIONS: dict[ReduceOp, Callable[[Any], Any]] = {
    ReduceOp.SUM: lambda rows: jnp.sum(rows, 0, dtype=rows.dtype),
    ReduceOp.AVG: lambda rows: jnp.mean(rows, 0),
    ReduceOp.PRODUCT: lambda rows: jnp.prod(rows, 0, dtype=rows.dtype),
    ReduceOp.MIN: lambda rows: jnp.min(rows, 0),
    ReduceOp.MAX: lambda rows: jnp.max(rows, 0),
    ReduceOp.BAND: lambda rows: functools.reduce(jnp.bitwise_and, rows),
    ReduceOp.BOR: lambda rows: functools.reduce(jnp.bitwise_or, rows),
    ReduceOp.BXOR: lambda rows: functools.reduce(jnp.bitwise_xor, rows),
}
#: The reductions that XLA computes across processes; for the others each process gets all rows.
BY_XLA = (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.MIN, ReduceOp.MAX)
# The type of the members, which PyTorch names separately.
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]
