"""Repetitions of a tensor: `repeat`, `tile`, `repeat_interleave`."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kernel import Kernel
from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.dispatch import run_with_constants
from flambeau.core.operators.op import function, op
from flambeau.core.support.generations import remembered
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.common.derivatives import moved
from flambeau.ops.common.dims import as_int, sizes_of
from flambeau.ops.common.known import is_unknown, known_values
from flambeau.ops.indices.placement import or_missing

__all__ = ["repeat_interleave", "tile"]


@op(name="repeat", linear=True)
def _repeat(input: Array, repeats: tuple[int, ...]) -> Array:
    return moved(functools.partial(jnp.tile, reps=repeats), input)


@function(method=True)
def repeat(self: Tensor, *counts: Any, repeats: Any = None) -> Any:
    """The tensor repeated ``counts[d]`` times along each dimension, with new leading ones.

    Raises:
        RuntimeError: There are fewer numbers than dimensions, or a negative one.
    """
    times = sizes_of(counts, "repeat", repeats)
    if len(times) < self.ndim:
        raise RuntimeError(
            f"repeat(): {len(times)} repeats {list(times)} are fewer than the tensor's "
            f"{self.ndim} dimensions"
        )
    return _repeat(self, _not_negative(times, "repeat"))


def _not_negative(counts: tuple[int, ...], name: str) -> tuple[int, ...]:
    if any(count < 0 for count in counts):
        raise RuntimeError(f"{name}(): repeats must not be negative, got {list(counts)}")
    return counts


@function(method=True)
def tile(input: Tensor, *counts: Any, dims: Any = None) -> Any:
    """`Tensor.repeat` with missing leading counts set to 1."""
    times = sizes_of(counts, "tile", dims)
    times = (1,) * (input.ndim - len(times)) + times
    return _repeat(input, _not_negative(times, "tile"))


@op(name="repeat_interleave", linear=True)
def _repeat_each(input: Array, repeats: int, dim: int | None) -> Array:
    return moved(functools.partial(jnp.repeat, repeats=repeats, axis=dim), input)


@remembered
def _repeat_kernel(dim: int, total: int) -> Kernel:
    def repeat_interleave(array: Any, repeats: Any) -> Any:
        repeats = jnp.broadcast_to(repeats, (array.shape[dim],))
        each = functools.partial(jnp.repeat, axis=dim, total_repeat_length=total)
        fits = jnp.all(repeats >= 0) & (jnp.sum(repeats) == total)
        return or_missing(fits, moved(each, array, repeats))

    name = "RepeatInterleaveBackward0"
    return Kernel(repeat_interleave, "repeat_interleave", name, linear=True)


@function(method=True)
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Every element, or every position of ``dim``, repeated consecutively.

    Args:
        repeats: The number of repeats: an integer, or a tensor with a number for each position.
            With a single argument, ``input`` is this tensor and the positions themselves are
            repeated.
        dim: The dimension; by default the flattened elements.
        output_size: The sum of the repeats, which a compiled program needs. There, the result is
            NaN (the least integer, True) if it is not their sum or repeats are negative.

    Raises:
        RuntimeError: Repeats are negative, or their number differs from that of the positions; or
            ``output_size`` is not their sum.
        TracedValueError: In a compiled program, without ``output_size``.
    """
    if output_size is not None:
        output_size = as_int(output_size, "repeat_interleave(): output_size")
    if repeats is None:
        input, repeats, dim = _positions(input), input, 0
    if dim is not None:
        dim = wrap_dim(dim, input.ndim, "repeat_interleave")
    if not isinstance(repeats, Tensor):
        count = as_int(repeats, "repeat_interleave(): repeats")
        return _repeat_each(input, *_not_negative((count,), "repeat_interleave"), dim)
    if repeats.dtype.name not in ("int32", "int64"):
        raise NotImplementedError(
            f"repeat_interleave(): repeats must be of int32 or int64, got {repeats.dtype}"
        )
    if dim is None:
        input, dim = input.reshape(-1), 0
    _check_repeats(repeats, input.shape[dim], dim)
    if output_size is None or not is_unknown(repeats._read()):
        total = _total(repeats, input.shape[dim])
        output_size = total if output_size is None else output_size
        if output_size != total:
            raise RuntimeError(
                f"repeat_interleave(): output_size={output_size} must be the sum of repeats, "
                f"{total}"
            )
    repeats = repeats.to(input.device)
    return run_with_constants(_repeat_kernel(dim, output_size), (input, repeats), ())


def _positions(repeats: Tensor) -> Tensor:
    return Tensor._wrap(jnp.arange(repeats.numel(), dtype=repeats.dtype.numpy))


def _check_repeats(repeats: Tensor, size: int, dim: int) -> None:
    if repeats.ndim > 1 or (repeats.ndim == 1 and repeats.shape[0] not in (1, size)):
        raise RuntimeError(
            f"repeat_interleave(): repeats of shape {list(repeats.shape)} do not fit dimension "
            f"{dim} of size {size}; give one number, or one for each position"
        )


def _total(repeats: Tensor, size: int) -> int:
    counts = known_values("repeat_interleave", repeats, "give it output_size")
    if (counts < 0).any():
        raise RuntimeError(f"repeat_interleave(): repeats must not be negative, got {counts.min()}")
    return int(np.broadcast_to(counts, (size,)).sum())
