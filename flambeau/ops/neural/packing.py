"""Packed sequences: the steps of sequences of several lengths, without padding between them.

Sequences are sorted, the longest first. Packed, all first steps come first, then the second steps
of those that have one, and so on; ``batch_sizes`` says how many have each step.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from flambeau.core.op import Array, Arrays, Operand, op
from flambeau.core.tensor import Tensor
from flambeau.ops.from_data import from_numpy
from flambeau.ops.known import is_unknown, known_values

__all__: list[str] = []


@op(node="PackPaddedSequenceBackward0", linear=True)
def pack_steps(input: Array, batch_sizes: Array, count: int) -> Array:
    """The steps of padded sequences ``(T, N, ...)``, ``(count, ...)``.

    Args:
        input: Padded sequences, sorted by length.
        batch_sizes: ``(T,)``, how many sequences have each step; steps beyond are dropped.
        count: The sum of ``batch_sizes``.
    """
    ends = jnp.cumsum(batch_sizes)
    rows = jnp.arange(count)
    step = jnp.searchsorted(ends, rows, side="right")
    sequence = rows - (ends - batch_sizes)[step]
    return input[step, sequence]


@op(node="PadPackedSequenceBackward0", linear=True)
def pad_steps(
    input: Array, batch_sizes: Array, batch: int, length: int | None = None, value: Operand = 0.0
) -> Array:
    """Sequences padded to one length, ``(T, N, ...)``, from their packed steps.

    Args:
        input: Packed steps.
        batch_sizes: ``(T,)``, how many sequences have each step.
        batch: How many sequences there are.
        length: The length to pad to, by default T.
        value: What to pad with.
    """
    starts = jnp.cumsum(batch_sizes) - batch_sizes
    sequence = jnp.arange(batch)
    here = sequence < batch_sizes[:, None]
    rows = jnp.where(here, starts[:, None] + sequence, 0)
    here = here.reshape(*here.shape, *(1,) * (input.ndim - 1))
    padded = jnp.where(here, input[rows], jnp.asarray(value, input.dtype))
    if length is None or length == padded.shape[0]:
        return padded
    behind = [(0, length - padded.shape[0])] + [(0, 0)] * (padded.ndim - 1)
    return jnp.pad(padded, behind, constant_values=jnp.asarray(value, input.dtype))


@op(differentiable=False)
def _count_steps(batch_sizes: Array, batch: int) -> Array:
    return jnp.sum(jnp.arange(batch) < batch_sizes[:, None], 0)


def lengths_of(batch_sizes: Tensor, batch: int | None = None) -> Tensor:
    """How many steps each sequence has, ``(N,)``.

    Args:
        batch_sizes: ``(T,)``, how many sequences have each step.
        batch: N, if it is known.

    Raises:
        TracedValueError: A program is being compiled, and ``batch`` is not given.
    """
    if not is_unknown(batch_sizes._read()):
        sizes = known_values("pad_packed_sequence", batch_sizes)
        return from_numpy(np.sum(np.arange(sizes[0]) < sizes[:, None], 0))
    if batch is None:
        advice = (
            "pack the sequences inside the compiled function, or with enforce_sorted=False, or "
            "give the first state"
        )
        batch = int(known_values("pad_packed_sequence", batch_sizes, advice)[0])
    return _count_steps(batch_sizes, batch)


@op(node="PadSequenceBackward0", linear=True)
def _pad_all(sequences: Arrays, batch_first: bool, value: Operand, left: bool) -> Array:
    longest = max(each.shape[0] for each in sequences)
    padded = []
    for each in sequences:
        missing = longest - each.shape[0]
        widths = [(missing, 0) if left else (0, missing)] + [(0, 0)] * (each.ndim - 1)
        filled = jnp.asarray(value, sequences[0].dtype)
        padded.append(jnp.pad(each.astype(sequences[0].dtype), widths, constant_values=filled))
    return jnp.stack(padded, 0 if batch_first else 1)


def pad_all(sequences: tuple[Tensor, ...], batch_first: bool, value: float, left: bool) -> Tensor:
    """Sequences ``(length, ...)`` padded to one length and stacked; see `nn.utils.rnn`."""
    if not sequences:
        raise RuntimeError("pad_sequence() got no sequences")
    shapes = [list(each.shape) for each in sequences]
    if any(not shape or shape[1:] != shapes[0][1:] for shape in shapes):
        raise RuntimeError(
            "pad_sequence() needs sequences that differ in their first dimension only, got shapes "
            f"{', '.join(map(str, shapes))}"
        )
    arrays = [each._read() for each in sequences]
    if any(map(is_unknown, arrays)) or any(each.requires_grad for each in sequences):
        return _pad_all(sequences, batch_first, value, left)
    # Every batch has other lengths; what collects batches should not compile a program for each.
    lengths = [len(each) for each in arrays]
    stacked = np.full((len(arrays), max(lengths), *arrays[0].shape[1:]), value, arrays[0].dtype)
    for row, each, length in zip(stacked, arrays, lengths, strict=True):
        row[len(row) - length if left else 0 :][:length] = np.asarray(each)
    return from_numpy(stacked if batch_first else np.swapaxes(stacked, 0, 1).copy())


def sizes_of(lengths: Any) -> np.ndarray:
    """How many sequences have each step, from their lengths, the longest first."""
    return np.sum(np.arange(lengths[0])[:, None] < lengths, 1)
