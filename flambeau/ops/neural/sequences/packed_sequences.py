"""Batches of sequences of several lengths, padded and packed, and their conversion.

Packed, all first steps come first, then the second steps of the sequences that have one, and so on,
the longest sequence first; ``batch_sizes`` is the number of sequences with each step. Each total
number of steps is another shape, which needs its own programs. A padded batch ``(T, N, ...)``, in
any order, has one shape for all lengths, which are data: so the recurrent layers compute on padded
batches.
"""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from flambeau.core.kernels.kinds import SIZES, Array, Arrays, Operand
from flambeau.core.operators.op import op
from flambeau.core.support.modes import modes
from flambeau.core.values.cell import is_abstract
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import outside
from flambeau.ops.common.known import is_traced, is_unknown, known_values
from flambeau.ops.factories.from_data import from_numpy
from flambeau.ops.indices.placement import or_missing

__all__: list[str] = []

Steps: TypeAlias = Annotated[int, SIZES]


@op(node="PackPaddedSequenceBackward0", linear=True)
def batch_steps(
    input: Array, lengths: Array, steps: Steps, batch_first: bool, fits: Array | None = None
) -> Array:
    """Padded sequences as ``(steps, N, ...)``, with zeros after each.

    Otherwise padding values such as NaN would reach the gradients of weights.

    Args:
        input: ``(T, N, ...)``, or ``(N, T, ...)`` with ``batch_first``.
        lengths: ``(N,)``.
        steps: The number of steps to keep, or to pad to.
        batch_first: See ``input``.
        fits: ``(N,)``, False for a sequence that becomes NaN.
    """
    padded = _resized(jnp.swapaxes(input, 0, 1) if batch_first else input, steps)
    if fits is not None:
        padded = or_missing(fits.reshape(1, -1, *(1,) * (padded.ndim - 2)), padded)
    return jnp.where(_is_within(lengths, padded), padded, jnp.zeros((), input.dtype))


@op(node="PadPackedSequenceBackward0", linear=True)
def fill_behind(
    padded: Array, lengths: Array, steps: Steps, value: Operand, batch_first: bool
) -> Array:
    """Padded sequences with ``value`` after each.

    Args:
        padded: ``(T, N, ...)``.
        lengths: ``(N,)``.
        steps: The length to pad to.
        value: The padding value.
        batch_first: Whether to return ``(N, steps, ...)`` rather than ``(steps, N, ...)``.
    """
    found = _resized(padded, steps)
    found = jnp.where(_is_within(lengths, found), found, jnp.asarray(value, padded.dtype))
    return jnp.swapaxes(found, 0, 1) if batch_first else found


def _resized(padded: Any, steps: int) -> Any:
    missing = steps - padded.shape[0]
    if missing <= 0:
        return padded[:steps]
    return jnp.pad(padded, [(0, missing)] + [(0, 0)] * (padded.ndim - 1))


def _is_within(lengths: Any, padded: Any) -> Any:
    here = jnp.arange(padded.shape[0])[:, None] < lengths
    return here.reshape(*here.shape, *(1,) * (padded.ndim - 2))


@op(node="PackPaddedSequenceBackward0", linear=True)
def pack_steps(padded: Array, batch_sizes: Array, order: Array | None, count: int) -> Array:
    """The steps of padded sequences ``(T, N, ...)``, packed: ``(count, ...)``.

    Args:
        padded: Padded sequences.
        batch_sizes: The number of sequences with each step; further steps are dropped.
        order: ``(N,)``, the sequences from the longest to the shortest; ``None`` if they are
            sorted.
        count: The sum of ``batch_sizes``.
    """
    ends = jnp.cumsum(batch_sizes)
    rows = jnp.arange(count)
    step = jnp.searchsorted(ends, rows, side="right")
    sequence = rows - (ends - batch_sizes)[step]
    return padded[step, sequence if order is None else order[sequence]]


@op(node="PadPackedSequenceBackward0", linear=True)
def pad_steps(data: Array, batch_sizes: Array, rank: Array | None, batch: int, steps: int) -> Array:
    """The inverse of `pack_steps`: ``(steps, N, ...)``, with zeros after each sequence.

    Args:
        data: Packed steps.
        batch_sizes: ``(T,)``, the number of sequences with each step.
        rank: ``(N,)``, the inverse of ``order`` in `pack_steps`.
        batch: The number of sequences.
        steps: The length to pad to, T or more.
    """
    starts = jnp.cumsum(batch_sizes) - batch_sizes
    rank = jnp.arange(batch) if rank is None else rank
    here = rank < batch_sizes[:, None]
    rows = jnp.where(here, starts[:, None] + rank, 0)
    here = here.reshape(*here.shape, *(1,) * (data.ndim - 1))
    return _resized(jnp.where(here, data[rows], jnp.zeros((), data.dtype)), steps)


@op(differentiable=False)
def _count_sequences(lengths: Array, steps: int) -> Array:
    return jnp.sum(jnp.arange(steps)[:, None] < lengths, 1)


@op(differentiable=False)
def _count_steps(batch_sizes: Array, batch: int) -> Array:
    return jnp.sum(jnp.arange(batch) < batch_sizes[:, None], 0)


class Layout:
    """The lengths of the sequences of a padded batch, and their order when packed.

    Tensors from one packing share one; the batch sizes and the order are computed on first use.

    Args:
        lengths: ``(N,)``, int64, on the device of the sequences.
        known: The same as a NumPy array, if they were known at packing.
        in_order: Whether the longest sequence comes first, and so on.
        order: ``(N,)``, the sequences from the longest to the shortest, if given by the caller.
        rank: ``(N,)``, the inverse of ``order``.
        sizes: The batch sizes, if given by the caller.
    """

    def __init__(
        self,
        lengths: Tensor,
        known: np.ndarray | None = None,
        in_order: bool = False,
        order: Tensor | None = None,
        rank: Tensor | None = None,
        sizes: Tensor | None = None,
    ) -> None:
        self.lengths = lengths
        self.in_order = in_order
        #: The order and its inverse, if given by the caller.
        self.given: tuple[Tensor | None, Tensor | None] = (order, rank)
        self._known, self._order, self._rank, self._sizes = known, order, rank, sizes

    @staticmethod
    def of_lengths(known: np.ndarray, in_order: bool, device: Any) -> Layout:
        """The layout for known lengths.

        Args:
            known: The lengths; must not be written to afterwards.
            in_order: See `Layout`.
            device: The device of the sequences.
        """
        return Layout(from_numpy(known).to(device), known, in_order)

    @staticmethod
    def of_sizes(
        sizes: Tensor, order: Tensor | None, rank: Tensor | None, batch: int | None, device: Any
    ) -> Layout:
        """The layout of packed sequences.

        Args:
            sizes: The number of sequences with each step.
            order: See `Layout`.
            rank: See `Layout`.
            batch: The number of sequences, if known.
            device: The device of the steps.

        Raises:
            TracedValueError: A program is being compiled, and ``batch`` is not given.
        """
        known = None
        if not is_unknown(sizes._read()) and (rank is None or not is_unknown(rank._read())):
            values = known_values("pad_packed_sequence", sizes)
            known = np.sum(np.arange(values[0]) < values[:, None], 0)
            known = known if rank is None else known[np.asarray(rank._read())]
            lengths = from_numpy(known)
        else:
            if batch is None:
                advice = (
                    "pack the sequences inside the compiled function, or with enforce_sorted=False,"
                    " or give the first state"
                )
                batch = int(known_values("pad_packed_sequence", sizes, advice)[0])
            lengths = _count_steps(sizes, batch).to(device)
            lengths = lengths if rank is None else lengths.index_select(0, rank)
        if order is None and rank is not None:
            order = rank.argsort()
        return Layout(lengths.to(device), known, order is None, order, rank, sizes)

    def to(self, device: Any) -> Layout:
        """The same layout for sequences on another device."""
        if device == self.lengths.device:
            return self
        order, rank = (None if each is None else each.to(device) for each in self.given)
        return Layout(self.lengths.to(device), self._known, self.in_order, order, rank, self._sizes)

    @property
    def known(self) -> np.ndarray | None:
        """The lengths, or ``None`` if they are an input of the program, or on the meta device."""
        if self._known is None and not is_traced(self.lengths):
            array = self.lengths._read()
            self._known = None if is_abstract(array) else np.asarray(array)
        return self._known

    def count(self) -> int:
        """The total number of steps.

        Raises:
            TracedValueError: A program is being compiled, and the lengths are its input.
        """
        known = self.known
        if known is None:
            advice = (
                "give pack_padded_sequence() the lengths as a list of integers, or ask for the "
                "packed steps before the call"
            )
            known = known_values("PackedSequence.data", self.lengths, advice)
        return int(np.sum(known))

    def sizes(self, steps: int) -> Tensor:
        """The number of sequences with each step, for all steps of the longest.

        If the lengths are unknown it covers all ``steps``, with zeros for steps without sequences.
        """
        if self._sizes is None:
            with where_made(self.lengths):
                known = self.known
                self._sizes = (
                    _count_sequences(self.lengths, steps)
                    if known is None
                    else from_numpy(sizes_of(known))
                )
        return self._sizes

    @property
    def order(self) -> Tensor | None:
        """The sequences from the longest to the shortest; ``None`` if they are sorted."""
        if self._order is None and not self.in_order:
            with where_made(self.lengths):
                known = self.known
                self._order = (
                    self.lengths.argsort(descending=True, stable=True)
                    if known is None
                    else from_numpy(_order_of(known)).to(self.lengths.device)
                )
        return self._order

    @property
    def rank(self) -> Tensor | None:
        """The rank of each sequence in this order; ``None`` if they are sorted."""
        if self._rank is None and self.order is not None:
            with where_made(self.lengths):
                self._rank = self.order.argsort()
        return self._rank

    def spread(self, rows: np.ndarray, steps: int) -> np.ndarray:
        """Rows of the packed steps, ``(count, ...)``, as ``(steps, N, ...)``, padded with zeros.

        The lengths must be known.
        """
        known = self.known
        assert known is not None
        rank = np.arange(len(known))
        if self._rank is not None:
            rank = np.asarray(self._rank._read())
        elif not self.in_order:
            rank = np.argsort(_order_of(known))
        sizes = sizes_of(known)
        here = np.arange(steps)[:, None] < known
        places = (np.cumsum(sizes) - sizes)[:, None] + rank
        spread = np.zeros((*here.shape, *rows.shape[1:]), rows.dtype)
        spread[here] = rows[places[here[: len(sizes)]]]
        return spread


def sizes_of(lengths: np.ndarray) -> np.ndarray:
    """The number of sequences with each step, from their lengths."""
    return np.sum(np.arange(lengths.max())[:, None] < lengths, 1)


def _order_of(lengths: np.ndarray) -> np.ndarray:
    return np.argsort(-lengths, kind="stable")


def where_made(tensor: Tensor) -> contextlib.AbstractContextManager[None]:
    """Compute outside the running trace in this block, if ``tensor`` existed before the trace.

    For values that are computed lazily and stored with the tensor.
    """
    return outside() if is_from_outside(tensor) else contextlib.nullcontext()


def is_from_outside(tensor: Tensor) -> bool:
    """Whether a trace is running, and ``tensor`` existed before it."""
    trace = modes.trace
    return trace is not None and trace.is_outside(tensor)


def may_be_kept(found: Tensor, source: Tensor) -> bool:
    """Whether a value computed from ``source`` may be cached as long as ``source`` lives.

    Inside a function that JAX transforms the value is a tracer, which ends with the function, or
    lacks the history that it has outside.
    """
    if source.requires_grad and not found.requires_grad:
        return False
    return isinstance(source._read(), Tracer) or not isinstance(found._read(), Tracer)


def rounded(steps: int) -> int:
    """A slightly greater length from a sparse set, so that few programs are compiled."""
    unit = 1 << max(steps.bit_length() - 4, 0)
    return -(-steps // unit) * unit


# Below this many steps, padding costs less than another program.
_FEW_STEPS = 32


def steps_for(padded: int, longest: int) -> int:
    """The number of steps to compute for padded sequences.

    The padded length; halved as long as more than half of the steps are padding in every sequence.

    Args:
        padded: The length that they are padded to.
        longest: The length of the longest.
    """
    while longest <= -(-padded // 2) and padded > _FEW_STEPS:
        padded = -(-padded // 2)
    return rounded(padded)


@op(node="PadSequenceBackward0", linear=True)
def _pad_all(
    sequences: Arrays, batch_first: bool, value: Operand, left: bool, steps: int | None
) -> Array:
    longest = max(each.shape[0] for each in sequences) if steps is None else steps
    padded = []
    for each in sequences:
        missing = longest - each.shape[0]
        widths = [(missing, 0) if left else (0, missing)] + [(0, 0)] * (each.ndim - 1)
        filled = jnp.asarray(value, sequences[0].dtype)
        padded.append(jnp.pad(each.astype(sequences[0].dtype), widths, constant_values=filled))
    return jnp.stack(padded, 0 if batch_first else 1)


def pad_all(
    sequences: tuple[Tensor, ...],
    batch_first: bool,
    value: float,
    left: bool,
    steps: int | None = None,
) -> Tensor:
    """Sequences ``(length, ...)`` padded to one length and stacked; see `nn.utils.rnn`.

    Args:
        sequences: See `nn.utils.rnn.pad_sequence`.
        batch_first: As there.
        value: The padding value.
        left: Whether to pad before the sequences.
        steps: The length to pad to, by default that of the longest.
    """
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
        return _pad_all(sequences, batch_first, value, left, steps)
    # Every batch has other lengths; code that collates batches should not compile a program for
    # each.
    steps = max(map(len, arrays)) if steps is None else steps
    stacked = pad_arrays([np.asarray(each) for each in arrays], value, left, steps)
    return from_numpy(stacked if batch_first else np.swapaxes(stacked, 0, 1).copy())


def pad_arrays(arrays: list[np.ndarray], value: float, left: bool, steps: int) -> np.ndarray:
    """Arrays ``(length, ...)`` of one dtype, padded and stacked: ``(N, steps, ...)``."""
    stacked = np.full((len(arrays), steps, *arrays[0].shape[1:]), value, arrays[0].dtype)
    for row, each in zip(stacked, arrays, strict=True):
        row[steps - len(each) if left else 0 :][: len(each)] = each
    return stacked
