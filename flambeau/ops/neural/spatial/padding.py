"""Padding: with a constant, or with the elements near the edges."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.core.support.dtype import from_numpy_dtype
from flambeau.core.values.convert import number_in

__all__ = ["constant_pad_nd"]

_RULES = ("reflect", "replicate", "circular")


def _pairs(name: str, input: Any, pad: tuple[int, ...]) -> list[tuple[int, int]]:
    """The padding before and after each dimension; ``pad`` begins with the last one."""
    if len(pad) % 2:
        raise RuntimeError(f"{name}(): pad needs two numbers per dimension, got {list(pad)}")
    if len(pad) // 2 > input.ndim:
        raise RuntimeError(
            f"{name}(): pad={list(pad)} names {len(pad) // 2} dimensions, the input has shape "
            f"{list(input.shape)}"
        )
    named = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    pairs = [(0, 0)] * (input.ndim - len(named)) + named[::-1]
    sizes = [size + a + b for size, (a, b) in zip(input.shape, pairs, strict=True)]
    if any(each < 0 for each in sizes):
        raise RuntimeError(
            f"{name}(): pad={list(pad)} of an input of shape {list(input.shape)} would give the "
            f"negative size {sizes}"
        )
    return pairs


@op(linear=True)
def constant_pad_nd(input: Array, pad: tuple[int, ...], value: float = 0.0) -> Array:
    """``input`` with ``value`` around it; negative numbers crop.

    Args:
        input: Any shape.
        pad: The padding before and after the last dimension, then the second to last, and so on.
        value: The padding value.

    Raises:
        RuntimeError: ``pad`` has odd length, is too long, or crops too much.
    """
    pairs = _pairs("constant_pad_nd", input, pad)
    to = from_numpy_dtype(input.dtype)
    # As a float, so that a negative number does not wrap around.
    number = value if isinstance(value, complex) else float(value)
    fill = jnp.asarray(number_in(number, to, "constant_pad_nd"), input.dtype)
    return lax.pad(input, fill, [(a, b, 0) for a, b in pairs])


@op(linear=True)
def pad_by_rule(input: Array, pad: tuple[int, ...], mode: str) -> Array:
    """``input`` extended beyond its edges; negative numbers crop.

    Args:
        input: With one, two or three padded dimensions, and one or two before them.
        pad: The padding before and after the last dimension, then the second to last, and so on.
        mode: ``"reflect"`` mirrors without repeating the edge, ``"replicate"`` repeats the edge,
            ``"circular"`` wraps around.

    Raises:
        NotImplementedError: The mode is unknown, or not defined for this number of dimensions.
        RuntimeError: The padding exceeds the limit of the mode, or a dimension other than the batch
            is empty.
    """
    if mode not in _RULES:
        raise NotImplementedError(f"pad(): mode must be 'constant' or of {_RULES}, got {mode!r}")
    pairs = _pairs("pad", input, pad)
    if len(pad) // 2 not in (input.ndim - 1, input.ndim - 2) or not 2 <= input.ndim <= 5:
        raise NotImplementedError(
            f"pad() with mode={mode!r} pads all dimensions but the first one or two of a tensor of "
            f"2 to 5; got shape {list(input.shape)} and pad={list(pad)}"
        )
    if mode != "circular" and 0 in input.shape[input.ndim - 1 - len(pad) // 2 :]:
        raise RuntimeError(
            f"pad(): with mode={mode!r} only the batch may be empty, got shape {list(input.shape)}"
        )
    for axis, (before, behind) in enumerate(pairs):
        if (before, behind) != (0, 0):
            input = _extended(input, axis, before, behind, mode)
    return input


def _extended(input: Any, axis: int, before: int, behind: int, mode: str) -> Any:
    size = input.shape[axis]
    limit = {"reflect": size - 1, "replicate": before + behind + 1, "circular": size}[mode]
    if max(before, behind) > limit or size == 0:
        raise RuntimeError(
            f"pad(): mode={mode!r} can extend dimension {axis} of size {size} by at most {limit}, "
            f"got ({before}, {behind}) for shape {list(input.shape)}"
        )
    if mode == "circular":
        # The part that wraps around is what remains after the other side's crop.
        input = lax.slice_in_dim(input, max(-before, 0), size - max(-behind, 0), axis=axis)
        before, behind = max(before, 0), max(behind, 0)
    pieces = [input]
    if before > 0:
        pieces.insert(0, _border(input, axis, before, mode, front=True))
    if behind > 0:
        pieces.append(_border(input, axis, behind, mode, front=False))
    extended = jnp.concatenate(pieces, axis)
    start = max(-before, 0)
    stop = extended.shape[axis] - max(-behind, 0)
    return lax.slice_in_dim(extended, start, stop, axis=axis)


def _border(input: Any, axis: int, count: int, mode: str, front: bool) -> Any:
    size = input.shape[axis]
    if mode == "circular":
        start = size - count if front else 0
        return lax.slice_in_dim(input, start, start + count, axis=axis)
    if mode == "reflect":
        start = 1 if front else size - 1 - count
        return jnp.flip(lax.slice_in_dim(input, start, start + count, axis=axis), axis)
    edge = lax.slice_in_dim(input, 0 if front else size - 1, 1 if front else size, axis=axis)
    return jnp.repeat(edge, count, axis)
