"""Batches of sequences of several lengths: padded, packed, and back.

A padded batch has every sequence filled up to the length of the longest. A packed one has no
filling: all first steps come first, then the second steps of the sequences that have one, and so
on. The recurrent layers take both; see https://docs.pytorch.org/docs/2.13/nn.html#utilities
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from flambeau.core import dtype as dtypes
from flambeau.core.tensor import Tensor
from flambeau.ops.from_data import from_numpy
from flambeau.ops.known import known_values
from flambeau.ops.neural.packing import lengths_of, pack_steps, pad_all, pad_steps, sizes_of

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


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Sequences of several lengths without padding; `pack_padded_sequence` makes them.

    Attributes:
        data: ``(steps of all sequences, ...)``, on any device and of any dtype.
        batch_sizes: ``(T,)``, how many sequences have each step; int64 and on the CPU.
        sorted_indices: ``(N,)``, which sequence of the batch comes first, second, and so on, the
            longest first; ``None`` if the batch was in that order.
        unsorted_indices: ``(N,)``, the inverse of that permutation.

    Raises:
        ValueError: ``batch_sizes`` is not on the CPU.
        AssertionError: ``batch_sizes`` is missing, and ``data`` is no pair of both.

    >>> import flambeau
    >>> from flambeau.nn.utils.rnn import pack_sequence
    >>> packed = pack_sequence([flambeau.tensor([1, 2, 3]), flambeau.tensor([4])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    # How many sequences there are, if whoever packed them knew.
    _batch: int | None

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            if not (isinstance(data, list | tuple) and len(data) == 2):
                raise AssertionError(
                    "a PackedSequence without batch_sizes needs a pair (data, batch_sizes) as its "
                    f"data, got {type(data).__name__}; let pack_sequence() make it"
                )
            data, batch_sizes = data
        elif isinstance(batch_sizes, Tensor) and batch_sizes.device.type != "cpu":
            raise ValueError(
                f"the batch_sizes of a PackedSequence must be on the CPU, got {batch_sizes.device};"
                " let pack_padded_sequence() or pack_sequence() make it"
            )
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        made = super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)  # type: ignore[arg-type]
        made._batch = unsorted_indices.size(0) if isinstance(unsorted_indices, Tensor) else None
        return made

    def _with(self, data: Tensor) -> PackedSequence:
        """The same sequences with other steps."""
        made = type(self)(data, *self[1:])
        made._batch = self._batch
        return made

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """``data`` converted as `Tensor.to` does, and the indices moved along."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [None if each is None else each.to(data.device) for each in self[2:]]
        made = type(self)(data, self.batch_sizes, *indices)
        made._batch = self._batch
        return made

    def cuda(self, device: Any = None) -> PackedSequence:
        """The sequences on a GPU, by default the first."""
        return self.to("cuda" if device is None else device)

    def cpu(self) -> PackedSequence:
        """The sequences on the CPU."""
        return self.to("cpu")

    def double(self) -> PackedSequence:
        """The sequences as float64."""
        return self.to(dtypes.double)

    def float(self) -> PackedSequence:
        """The sequences as float32."""
        return self.to(dtypes.float)

    def half(self) -> PackedSequence:
        """The sequences as float16."""
        return self.to(dtypes.half)

    def long(self) -> PackedSequence:
        """The sequences as int64."""
        return self.to(dtypes.int64)

    def int(self) -> PackedSequence:
        """The sequences as int32."""
        return self.to(dtypes.int32)

    def short(self) -> PackedSequence:
        """The sequences as int16."""
        return self.to(dtypes.int16)

    def char(self) -> PackedSequence:
        """The sequences as int8."""
        return self.to(dtypes.int8)

    def byte(self) -> PackedSequence:
        """The sequences as uint8."""
        return self.to(dtypes.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether ``data`` is on a GPU."""
        return self.data.is_cuda

    def pin_memory(self) -> PackedSequence:
        """This; JAX decides how it moves memory."""
        return self

    def is_pinned(self) -> bool:
        """``False``; JAX decides how it moves memory."""
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation ``(N,)``, or ``None`` for ``None``.

    >>> import flambeau
    >>> invert_permutation(flambeau.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """A padded batch without its padding.

    Args:
        input: ``(T, N, ...)``, or ``(N, T, ...)`` with ``batch_first``.
        lengths: The N lengths, each from 1 to T. Their values must be known: in a compiled
            function give a list.
        batch_first: See ``input``.
        enforce_sorted: The sequences must come in the order of their lengths, the longest first;
            otherwise they are sorted, and the recurrent layers and `pad_packed_sequence` give
            their order back.

    Raises:
        RuntimeError: The lengths are not one-dimensional, are not as many as the sequences, are
            out of range or not sorted.
    """
    batch_dim = 0 if batch_first else 1
    known = _known_lengths("pack_padded_sequence", lengths)
    _check_lengths(input, known, batch_dim)
    sorted_indices = None
    if enforce_sorted:
        if np.any(np.diff(known) > 0):
            raise RuntimeError(
                f"pack_padded_sequence(): the lengths {known.tolist()} are not in decreasing "
                "order; give enforce_sorted=False to have the sequences sorted"
            )
    else:
        order = np.argsort(-known, kind="stable")
        known = known[order]
        sorted_indices = from_numpy(order).to(input.device)
        input = input.index_select(batch_dim, sorted_indices)
    sizes = sizes_of(known)
    batch_sizes = from_numpy(sizes)
    steps_first = input.transpose(0, 1) if batch_first else input
    data = pack_steps(steps_first, batch_sizes, int(sizes.sum()))
    packed = PackedSequence(data, batch_sizes, sorted_indices)
    packed._batch = len(known)
    return packed


def _known_lengths(name: str, lengths: Any) -> np.ndarray:
    if isinstance(lengths, Tensor):
        lengths = known_values(name, lengths, "give the lengths as a list of integers")
    known = np.asarray(lengths, np.int64)
    if known.ndim != 1:
        raise RuntimeError(f"{name}(): lengths must be one-dimensional, got {known.ndim}-d")
    return known


def _check_lengths(input: Tensor, known: np.ndarray, batch_dim: int) -> None:
    name = "pack_padded_sequence()"
    if input.numel() == 0:
        raise RuntimeError(f"{name} cannot pack an empty tensor, got shape {list(input.shape)}")
    if len(known) != input.size(batch_dim):
        raise RuntimeError(
            f"{name} got {len(known)} lengths for a batch of {input.size(batch_dim)} sequences"
        )
    longest = input.size(1 - batch_dim)
    if known.min() <= 0 or known.max() > longest:
        raise RuntimeError(
            f"{name} needs lengths from 1 to {longest}, the padded length, got {known.tolist()}"
        )


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded batch that was packed, in its own order; the inverse of `pack_padded_sequence`.

    Args:
        sequence: Packed sequences.
        batch_first: Whether to give ``(N, T, ...)`` rather than ``(T, N, ...)``.
        padding_value: What to pad with.
        total_length: T, by default the greatest length.

    Returns:
        The padded batch, and the lengths, ``(N,)``.

    Raises:
        ValueError: ``total_length`` is smaller than the greatest length.
    """
    longest = sequence.batch_sizes.size(0)
    if total_length is None:
        total_length = longest
    if total_length < longest:
        raise ValueError(
            f"pad_packed_sequence(): total_length={total_length} is smaller than the greatest "
            f"length, {longest}"
        )
    lengths = lengths_of(sequence.batch_sizes, sequence._batch)
    padded = pad_steps(
        sequence.data, sequence.batch_sizes, lengths.size(0), total_length, padding_value
    )
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices.cpu())
    return padded.transpose(0, 1) if batch_first else padded, lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences of several lengths stacked, each padded to the length of the longest.

    Args:
        sequences: Tensors of shape ``(length, ...)``, equal in all but the length.
        batch_first: Whether to give ``(N, T, ...)`` rather than ``(T, N, ...)``.
        padding_value: What to pad with.
        padding_side: ``"right"`` to pad behind the sequences, ``"left"`` before them.

    Raises:
        RuntimeError: There are no sequences, or they differ in more than the length, or
            ``padding_side`` is something else.
        TypeError: One of the sequences is no Tensor.

    >>> import flambeau
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
    """The sequences of a padded batch, each with its own length; the inverse of `pad_sequence`.

    Args:
        padded_sequences: ``(T, N, ...)``, or ``(N, T, ...)`` with ``batch_first``.
        lengths: The N lengths. Their values must be known: in a compiled function give a list.
        batch_first: See ``padded_sequences``.

    Raises:
        ValueError: There are not as many lengths as sequences.
    """
    known = _known_lengths("unpad_sequence", lengths)
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
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed, in their own order; the inverse of `pack_sequence`."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
