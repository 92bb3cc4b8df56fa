"""Rules for gather and scatter: parts of an array at positions that another array says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.lax import GatherScatterMode

from flambeau.core.interpreter.equation import Computation, Equation, Rule, Unknown
from flambeau.core.types import Function, Shape


class _Parts:
    """Equal parts of an array, of which each begins where a row of indices says.

    Args:
        shape: The array's.
        rows: The shape of the indices; the last dimension is a row's.
        sizes: The size of a part in each dimension of the array.
        starts: Which dimension of the array each number of a row belongs to.
        array_batch: Dimensions of the array along which the parts lie as the rows do,
        rows_batch: and the rows' dimensions for these.
        inside: The places that a part's dimensions, without those of ``gone``, take among the
            dimensions of all parts; the rows' dimensions take the others.
        gone: Dimensions of the array that parts have no dimension for.
    """

    def __init__(
        self, shape: Shape, rows: Shape, sizes: Sequence[int], starts: Shape,
        array_batch: Shape, rows_batch: Shape, inside: Shape, gone: Shape,
    ) -> None:  # fmt: skip
        rank = len(rows) - 1 + len(inside)
        outside = [i for i in range(rank) if i not in inside]
        self.outside: tuple[int, ...] = tuple(outside)
        self.rank: int = rank
        self.limits: np.ndarray = np.array([shape[d] - sizes[d] for d in starts], np.int64)
        self.column: dict[int, int] = {d: i for i, d in enumerate(starts)}
        self.expanded: tuple[int, ...] = tuple(inside)
        left = iter(inside)
        self.within: list[np.ndarray | None] = []
        for dimension, size in enumerate(sizes):
            steps: np.ndarray | None = None
            if dimension in array_batch:
                place = outside[rows_batch[list(array_batch).index(dimension)]]
                steps = _along(np.arange(shape[dimension]), place, rank)
            elif dimension not in gone:
                steps = _along(np.arange(size), next(left), rank)
            self.within.append(steps)

    def valid(self, rows: np.ndarray) -> np.ndarray:
        """Which rows' parts lie inside of the array, in all dimensions of the parts."""
        return self._spread(((rows >= 0) & (rows <= self.limits)).all(-1))

    def clamped(self, rows: np.ndarray) -> np.ndarray:
        """The rows, moved to where their parts lie inside."""
        return np.clip(rows, 0, self.limits)

    def where(self, rows: np.ndarray) -> tuple[np.ndarray | int, ...]:
        """The index of all parts' elements."""
        found = []
        for dimension, steps in enumerate(self.within):
            column = self.column.get(dimension)
            if column is None:
                found.append(0 if steps is None else steps)
            else:
                start = self._spread(rows[..., column])
                found.append(start if steps is None else start + steps)
        return tuple(found)

    def _spread(self, values: np.ndarray | np.generic) -> np.ndarray:
        return np.expand_dims(values, self.expanded)


def _along(numbers: np.ndarray, place: int, rank: int) -> np.ndarray:
    shape = [1] * rank
    shape[place] = len(numbers)
    return numbers.reshape(shape)


def gather(equation: Equation) -> Computation:
    numbers, mode = equation.params["dimension_numbers"], equation.params["mode"]
    shape = equation.shape
    parts = _Parts(
        equation.inputs[0].shape, equation.inputs[1].shape, equation.params["slice_sizes"],
        numbers.start_index_map, numbers.operand_batching_dims,
        numbers.start_indices_batching_dims, numbers.offset_dims,
        numbers.collapsed_slice_dims,
    )  # fmt: skip
    fills = _drops(mode)
    value: np.generic | int = _filler(equation) if fills else 0

    def found(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
        rows = _signed(rows)
        if not array.size:
            return np.full(shape, value, array.dtype)
        taken = array[parts.where(parts.clamped(rows))]
        taken = np.broadcast_to(taken, shape)
        return np.where(parts.valid(rows), taken, value) if fills else taken

    return found


def _drops(mode: object) -> bool:
    """Whether parts outside of the array count for nothing; they are moved inside otherwise."""
    if mode is None:
        return True
    mode = GatherScatterMode.from_any(str(mode)) if isinstance(mode, str) else mode
    if mode == GatherScatterMode.ONE_HOT:
        raise Unknown("gather by products")
    return mode == GatherScatterMode.FILL_OR_DROP


def _signed(rows: np.ndarray) -> np.ndarray:
    """Indices as numbers of 64 bits; unsigned ones that are too large stay outside."""
    if rows.dtype == np.uint64:
        rows = np.minimum(rows, np.uint64(np.iinfo(np.int64).max))
    return rows.astype(np.int64)


def _filler(equation: Equation) -> np.generic:
    given, dtype = equation.params["fill_value"], equation.dtype
    if given is not None:
        return dtype.type(given)
    if dtype.kind == "f":
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return np.True_
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if dtype.kind == "i" else limits.max)


def scatter(write: Function, kinds: str = "iuf") -> Rule:
    """The rule of writing into parts.

    Args:
        write: Changes an array, at an index, by values.
        kinds: The kinds of elements for which it is right.
    """

    def rule(equation: Equation) -> Computation:
        if equation.kind not in kinds:
            raise Unknown(f"{equation.name} of {equation.inputs[0].dtype}")
        numbers = equation.params["dimension_numbers"]
        array, rows, updates = equation.inputs
        inside = iter(numbers.update_window_dims)
        gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        sizes = [1 if d in gone else updates.shape[next(inside)] for d in range(array.ndim)]
        parts = _Parts(
            array.shape, rows.shape, sizes, numbers.scatter_dims_to_operand_dims,
            numbers.operand_batching_dims, numbers.scatter_indices_batching_dims,
            numbers.update_window_dims, numbers.inserted_window_dims,
        )  # fmt: skip
        drops = _drops(equation.params["mode"])
        full = updates.shape

        def found(array: np.ndarray, rows: np.ndarray, updates: np.ndarray) -> np.ndarray:
            new, rows = np.array(array), _signed(rows)
            if not updates.size or not new.size:
                return new
            where = [np.broadcast_to(each, full) for each in parts.where(parts.clamped(rows))]
            valid = np.broadcast_to(parts.valid(rows), full) if drops else None
            if valid is None or valid.all():
                write(new, tuple(where), updates)
            else:
                write(new, tuple(each[valid] for each in where), updates[valid])
            return new

        return found

    return rule


def _overwrite(array: np.ndarray, where: tuple[np.ndarray | int, ...], values: np.ndarray) -> None:
    array[where] = values


#: Rules by primitives.
RULES: dict[str, Rule] = {
    "gather": gather,
    "scatter": scatter(_overwrite, "biuf"),
    "scatter-add": scatter(np.add.at),
    "scatter_add": scatter(np.add.at),
    "scatter-mul": scatter(np.multiply.at),
    "scatter_mul": scatter(np.multiply.at),
    "scatter-max": scatter(np.maximum.at),
    "scatter_max": scatter(np.maximum.at),
    "scatter-min": scatter(np.minimum.at),
    "scatter_min": scatter(np.minimum.at),
}
