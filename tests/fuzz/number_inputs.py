"""Inputs at the edges of each dtype, so arranged that one call shows every combination."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

#: NumPy's dtypes by name.
DTYPES = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
    "int64": np.dtype(np.int64),
    "int32": np.dtype(np.int32),
    "int16": np.dtype(np.int16),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}
HALVES = ("float16", "bfloat16")
FLOATS = ("float32", "float64", *HALVES)
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")

_SINGULAR = [0.0, -0.0, np.inf, -np.inf, np.nan]
_SMALL = [1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, 1.5]
_MORE = [
    0.1, -0.1, 0.3, 0.7, 0.9, -0.9, 1e-3, -1e-3, 2.5, -2.5, 3.5, 4.0, -4.0, 7.0, -6.0, 9.0, -9.0,
    10.0, -10.0, 15.0, -15.0, 20.0, -20.0, 21.0, 30.0, -30.0, 50.0, -50.0, 89.0, -89.0, 104.0,
    -104.0, 128.0, -128.0, 300.0, -300.0, 710.0, -710.0, 746.0, -746.0, 3000.0, 60000.0, -60000.0,
]  # fmt: skip


def numbers(dtype: str, amount: str) -> np.ndarray:
    """Edge values of a dtype.

    Args:
        dtype: A name of `DTYPES`.
        amount: ``"few"``, ``"some"`` or ``"many"`` of them.
    """
    kind = DTYPES[dtype]
    if dtype == "bool":
        return np.array([False, True])
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        listed = [0, 1, 2, 3, 7, limits.max, limits.min, limits.max - 1]
        listed += [-1, -2, -7] if kind.kind == "i" else []
        return np.array(listed[: 5 if amount == "few" else None], kind)
    if kind.kind == "c":
        parts = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5] + ([] if amount == "few" else [20.0, -1e-3])
        return np.array([complex(a, b) for a, b in itertools.product(parts, parts)], kind)
    limits = ml_dtypes.finfo(kind)
    extremes = [limits.max, limits.min, limits.smallest_normal, -limits.smallest_normal, limits.eps]
    if dtype == "float16":
        # Those of wider dtypes are zeros to XLA on a CPU.
        extremes += [limits.smallest_subnormal, -limits.smallest_subnormal]
    listed = {
        "few": [1.0, -2.0, 0.5, *_SINGULAR[:1], *_SINGULAR[2:]],
        "some": [*_SINGULAR, *_SMALL, *map(float, extremes[:4])],
        "many": [*_SINGULAR, *_SMALL, *_MORE, *map(float, extremes)],
    }[amount]
    with np.errstate(over="ignore"):
        return np.array(listed, np.float64).astype(kind)


Inputs = Callable[[str, np.random.Generator], tuple[np.ndarray, ...]]


def one(dtype: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Every edge value once."""
    return (numbers(dtype, "many"),)


def two(dtype: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Every pair of edge values."""
    some = numbers(dtype, "few" if DTYPES[dtype].kind == "c" else "some")
    left, right = np.meshgrid(some, some, indexing="ij")
    return left.ravel(), right.ravel()


def three(dtype: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Every triple of a few edge values."""
    few = numbers(dtype, "few")[:: 5 if DTYPES[dtype].kind == "c" else 1]
    return tuple(each.ravel() for each in np.meshgrid(few, few, few, indexing="ij"))


def mixed(random: np.random.Generator, dtype: str, shape: tuple[int, ...], share: float) -> Any:
    """Small numbers, many of them equal, among them a share of edge values."""
    kind = DTYPES[dtype]
    if kind.kind in "iub":
        return random.choice(numbers(dtype, "some"), shape)
    plain = np.array([0.25, -0.5, 1.0, 2.0, -3.0, 1.5, 0.75])
    values = random.choice(plain, shape)
    if kind.kind == "c":
        return (values + 1j * random.choice(plain, shape)).astype(kind)
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
    chosen = random.random(shape) < share
    return np.where(chosen, random.choice(edges, shape), values).astype(kind)


def rows_of(width: int, amount: int = 60) -> Inputs:
    """A matrix: each row one combination of plain numbers and edge values."""

    def make(dtype: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        plain = mixed(random, dtype, (amount // 3, width), 0.0)
        rare = mixed(random, dtype, (amount // 3, width), 0.2)
        often = mixed(random, dtype, (amount - 2 * (amount // 3), width), 0.7)
        return (np.concatenate([plain, rare, often]),)

    return make


def shaped(*shapes: tuple[int, ...], share: float = 0.1) -> Inputs:
    """Arrays of these shapes with some edge values."""

    def make(dtype: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        return tuple(mixed(random, dtype, shape, share) for shape in shapes)

    return make


def plain(*shapes: tuple[int, ...]) -> Inputs:
    """Arrays of these shapes with small numbers only."""
    return shaped(*shapes, share=0.0)


def well_posed(*shapes: tuple[int, ...]) -> Inputs:
    """Arrays of small numbers, the first of them of matrices that are far from singular."""

    def make(dtype: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        first, *others = plain(*shapes)(dtype, random)
        places = np.arange(first.shape[-1])
        # No eigenvalue or singular value may be near another.
        first[..., places, places] += (4 + 2.5 * places).astype(first.dtype)
        return (first, *others)

    return make


def apart(*shapes: tuple[int, ...]) -> Inputs:
    """Arrays of these shapes, of small numbers that all differ."""

    def make(dtype: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        def one_of(shape: tuple[int, ...]) -> np.ndarray:
            count = int(np.prod(shape))
            return random.permutation(np.linspace(-1.7, 1.9, count)).reshape(shape)

        drawn = [
            one_of(shape) + 1j * one_of(shape) if DTYPES[dtype].kind == "c" else one_of(shape)
            for shape in shapes
        ]
        return tuple(each.astype(DTYPES[dtype]) for each in drawn)

    return make


def large(*shapes: tuple[int, ...]) -> Inputs:
    """Arrays of numbers of several hundred, whose squares no 16-bit float holds, and one small."""

    def make(dtype: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        drawn = [random.choice([300.0, -400.0, 500.0, 0.25], shape) for shape in shapes]
        return tuple(each.astype(DTYPES[dtype]) for each in drawn)

    return make


def cancelling(dtype: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Rows whose small members count only where sums are kept in more than 16 bits."""
    row = np.array([100.0] + [0.25] * 31 + [-100.0])
    return (np.stack([row, row[::-1], np.roll(row, 7)]).astype(DTYPES[dtype]),)


def empty(*shape: int) -> Inputs:
    """One array of a shape without elements."""
    return lambda dtype, random: (np.zeros(shape, DTYPES[dtype]),)


def scalar(value: float) -> Inputs:
    """One 0-d array."""
    return lambda dtype, random: (np.array(value).astype(DTYPES[dtype]),)
