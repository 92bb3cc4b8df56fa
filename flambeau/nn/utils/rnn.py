"""Batches of sequences of several lengths: padded, packed, and back.

A padded batch extends every sequence to the length of the longest. A packed batch has no padding:
all first steps come first, then the second steps of the sequences that have one, and so on. The
recurrent layers take both; see https://docs.pytorch.org/docs/2.13/nn.html#utilities
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor
from flambeau.nn.utils.packed_sequence import PackedSequence, invert_permutation
from flambeau.ops.common.known import is_traced, known_values
from flambeau.ops.elementwise.selection import where
from flambeau.ops.factories.from_data import from_numpy
from flambeau.ops.neural.sequences.packed_sequences import (
    Layout,
    batch_steps,
    fill_behind,
    pad_all,
    rounded,
    steps_for,
)

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """A padded batch without its padding.

    Args:
        input: ``(T, N, ...)``, or ``(N, T, ...)`` with ``batch_first``.
        lengths: The N lengths, each from 1 to T. In a compiled function a list is a constant of the
            program, while a Tensor may have other values at each call. Its values are not checked,
            and a sequence with a length out of range has a single step, which is NaN.
        batch_first: See ``input``.
        enforce_sorted: Require the sequences to be sorted by length, the longest first; otherwise
            they are sorted, and the recurrent layers and `pad_packed_sequence` restore their order.

    Raises:
        RuntimeError: The lengths are not one-dimensional, are not as many as the sequences, are
            out of range or not sorted.
    """
    longest, count = input.size(1 if batch_first else 0), input.size(0 if batch_first else 1)
    if isinstance(lengths, Tensor) and is_traced(lengths):
        _check_count(input, tuple(lengths.shape), count)
        lengths = lengths.to(input.device, dtypes.int64, copy=True)
        fits = (lengths >= 1) & (lengths <= longest)
        layout = Layout(where(fits, lengths, 1), None, enforce_sorted)
        steps = longest
    else:
        fits = None
        known = _known_lengths("pack_padded_sequence", lengths)
        _check_count(input, known.shape, count)
        _check_lengths(known, longest, enforce_sorted)
        layout = Layout.of_lengths(known, enforce_sorted, input.device)
        greatest = int(known.max())
        steps = greatest if is_traced(input) else steps_for(longest, greatest)
    padded = batch_steps(input, layout.lengths, steps, batch_first, fits)
    return PackedSequence._of_padded(padded, layout)


def _known_lengths(name: str, lengths: Tensor | Sequence[int]) -> np.ndarray:
    if isinstance(lengths, Tensor):
        known = known_values(name, lengths, "give the lengths as a list of integers")
        return np.array(known, np.int64)
    return np.array(lengths, np.int64)


def _check_count(input: Tensor, shape: tuple[int, ...], count: int) -> None:
    name = "pack_padded_sequence()"
    if len(shape) != 1:
        raise RuntimeError(f"{name}: lengths must be one-dimensional, got {len(shape)}-d")
    if input.numel() == 0:
        raise RuntimeError(f"{name} cannot pack an empty tensor, got shape {list(input.shape)}")
    if shape[0] != count:
        raise RuntimeError(f"{name} got {shape[0]} lengths for a batch of {count} sequences")


def _check_lengths(known: np.ndarray, longest: int, enforce_sorted: bool) -> None:
    name = "pack_padded_sequence()"
    if known.min() <= 0 or known.max() > longest:
        raise RuntimeError(
            f"{name} needs lengths from 1 to {longest}, the padded length, got {known.tolist()}"
        )
    if enforce_sorted and np.any(np.diff(known) > 0):
        raise RuntimeError(
            f"{name}: the lengths {known.tolist()} are not in decreasing order; give "
            "enforce_sorted=False to have the sequences sorted"
        )


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded batch of packed sequences, in its own order; inverts `pack_padded_sequence`.

    Args:
        sequence: Packed sequences.
        batch_first: Whether to return ``(N, T, ...)`` rather than ``(T, N, ...)``.
        padding_value: The padding value.
        total_length: T, by default the greatest length; in a program in which lengths are an input,
            the former length of the padded batch.

    Returns:
        The padded batch, and the lengths, ``(N,)``.

    Raises:
        ValueError: ``total_length`` is smaller than the greatest length, if known.
    """
    padded, layout = sequence._as_batch()
    known = layout.known
    steps = padded.size(0) if known is None else int(known.max())
    if total_length is not None:
        if known is not None and total_length < steps:
            raise ValueError(
                f"pad_packed_sequence(): total_length={total_length} is smaller than the greatest "
                f"length, {steps}"
            )
        steps = total_length
    lengths = layout.lengths.clone() if known is None else from_numpy(known)
    return fill_behind(padded, layout.lengths, steps, padding_value, batch_first), lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences of several lengths stacked, each padded to the length of the longest.

    Args:
        sequences: Tensors of shape ``(length, ...)``, equal in all but the length.
        batch_first: Whether to return ``(N, T, ...)`` rather than ``(T, N, ...)``.
        padding_value: The padding value.
        padding_side: ``"right"`` to pad after the sequences, ``"left"`` before them.

    Raises:
        RuntimeError: There are no sequences, or they differ in more than the length, or
            ``padding_side`` is invalid.
        TypeError: One of the sequences is not a Tensor.

    >>> import flambeau
    >>> from flambeau.nn.utils.rnn import pad_sequence
    >>> pad_sequence([flambeau.tensor([1, 2, 3]), flambeau.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence(): needs a list of Tensors, got {type(sequences).__name__}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"pad_sequence(): padding_side must be 'left' or 'right', got {padding_side!r}"
        )
    sequences = tuple(sequences)
    for number, each in enumerate(sequences):
        if not isinstance(each, Tensor):
            raise TypeError(
                f"pad_sequence() takes Tensors, but sequence {number} is a {type(each).__name__}"
            )
    return pad_all(sequences, batch_first, padding_value, padding_side == "left")


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """The sequences of a padded batch, each with its own length; inverts `pad_sequence`.

    Args:
        padded_sequences: ``(T, N, ...)``, or ``(N, T, ...)`` with ``batch_first``.
        lengths: The N lengths. Their values must be known: pass a list in a compiled function.
        batch_first: See ``padded_sequences``.

    Raises:
        ValueError: There are not as many lengths as sequences.
    """
    known = _known_lengths("unpad_sequence", lengths)
    if known.ndim != 1:
        raise RuntimeError(f"unpad_sequence(): lengths must be one-dimensional, got {known.ndim}-d")
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    if len(known) != batch.size(0):
        raise ValueError(f"unpad_sequence() got {len(known)} lengths for {batch.size(0)} sequences")
    return [batch[i, :length].clone() for i, length in enumerate(known.tolist())]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences of several lengths packed: `pad_sequence`, then `pack_padded_sequence`.

    Args:
        sequences: Tensors of shape ``(length, ...)``.
        enforce_sorted: See `pack_padded_sequence`.
    """
    lengths = [each.size(0) for each in sequences]
    steps = rounded(max(lengths, default=0))
    padded = pad_all(tuple(sequences), False, 0.0, False, steps)
    return pack_padded_sequence(padded, lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The unpacked sequences, in their own order; inverts `pack_sequence`."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
