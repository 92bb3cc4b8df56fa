"""`PackedSequence`: a named tuple that stays a padded batch until its data is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from flambeau.autograd import inference_mode
from flambeau.core.support import dtype as dtypes
from flambeau.core.values import pytree
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import MadeInsideError
from flambeau.nn.common_types import DeviceLike
from flambeau.ops.common.known import is_unknown
from flambeau.ops.neural.sequences.packed_sequences import (
    Layout,
    is_from_outside,
    may_be_kept,
    pack_steps,
    pad_steps,
    rounded,
    where_made,
)

__all__ = ["PackedSequence", "invert_permutation"]


#: The values of `PackedSequence`'s attributes, in order; empty while there is a padded batch.
Elements: TypeAlias = tuple[Any, ...]


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class _Padded(NamedTuple):
    """A batch ``(T, N, ...)`` that is never written to, and the lengths of its sequences."""

    batch: Tensor
    layout: Layout


class PackedSequence(_Fields):
    """Sequences of several lengths without padding; created by `pack_padded_sequence`.

    It is a named tuple of the attributes below. The results of `pack_padded_sequence` and of
    recurrent layers hold the padded batch instead, and pack its steps when ``data`` is first read;
    from then on the packed steps are used, so that they can be written to, or take a gradient.

    Attributes:
        data: ``(steps of all sequences, ...)``, on any device and of any dtype.
        batch_sizes: ``(T,)``, the number of sequences with each step; int64 and on the CPU.
        sorted_indices: ``(N,)``, the permutation of the batch that puts the longest sequence first;
            ``None`` if the batch was sorted.
        unsorted_indices: ``(N,)``, the inverse permutation.

    Raises:
        ValueError: ``batch_sizes`` is not on the CPU.
        AssertionError: ``batch_sizes`` is missing, and ``data`` is not a pair of both.

    >>> import flambeau
    >>> from flambeau.nn.utils.rnn import pack_sequence
    >>> packed = pack_sequence([flambeau.tensor([1, 2, 3]), flambeau.tensor([4])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    # The tuple's own elements are immutable, and stay empty. This attribute is used instead, as
    # long as there is a padded batch.
    _padded: _Padded | None
    # The elements after that; the lengths of the sequences, and their number, if known.
    _whole: Elements
    _layout: Layout | None
    _count: int | None

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
        return cls._of_steps((data, batch_sizes, sorted_indices, unsorted_indices))

    @classmethod
    def _of_steps(
        cls, whole: Elements, layout: Layout | None = None, count: int | None = None
    ) -> PackedSequence:
        new = tuple.__new__(cls, _NOTHING)
        new._padded, new._whole, new._layout, new._count = None, whole, layout, count
        return new

    @classmethod
    def _of_padded(cls, padded: Tensor, layout: Layout) -> PackedSequence:
        """The sequences of a batch ``(T, N, ...)`` that must not be written to later."""
        new = tuple.__new__(cls, _NOTHING)
        new._padded, new._whole, new._layout = _Padded(padded, layout), (), layout
        return new

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> PackedSequence:  # type: ignore[override]
        return cls(*iterable)

    def _elements(self) -> Elements:
        """The elements of the tuple."""
        if self._padded is None:
            return self._whole
        padded, layout = self._padded
        # Whichever element is read first, the steps inherit their history from the padded batch.
        with where_made(padded), inference_mode(padded.is_inference()):
            count, sizes = layout.count(), layout.sizes(padded.size(0))
            data = pack_steps(padded, sizes.to(padded.device), layout.order, count)
        whole = data, sizes, layout.order, layout.rank
        if may_be_kept(data, padded):
            self._padded, self._whole, self._count = None, whole, padded.size(1)
        if data.requires_grad and is_from_outside(padded):
            # Its node is newer than the start of the trace, and leads out of the trace.
            raise MadeInsideError(
                "a PackedSequence that takes a gradient came into a compiled function otherwise "
                "than as an argument; pass it as one, or ask for its data before the call"
            )
        return whole

    def _as_batch(self, count: int | None = None) -> tuple[Tensor, Layout]:
        """The sequences as a padded batch ``(T, N, ...)``, and its layout.

        Args:
            count: The number of sequences, if a program cannot know it.

        Raises:
            TracedValueError: A program is being compiled, and the number of sequences is unknown.
        """
        if self._padded is not None and not is_from_outside(self._padded.batch):
            return self._padded
        # A program must observe later writes to the steps.
        data, sizes, order, rank = self._elements()
        layout = self._layout
        if layout is None:
            count = self._known_count() or count
            layout = Layout.of_sizes(sizes, order, rank, count, data.device)
        batch, steps = layout.lengths.size(0), rounded(sizes.size(0))
        return pad_steps(data, sizes.to(data.device), layout.rank, batch, steps), layout

    def _known_count(self) -> int | None:
        """The number of sequences, unless it is a value computed in a program."""
        if self._layout is not None:
            return self._layout.lengths.size(0)
        _, sizes, _, rank = self._whole
        if isinstance(rank, Tensor):
            return rank.size(0)
        if self._count is None and isinstance(sizes, Tensor) and not is_unknown(sizes._read()):
            return int(sizes[0])
        return self._count

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        """The packed steps, ``(steps of all sequences, ...)``."""
        return self._elements()[0]

    @property
    def batch_sizes(self) -> Tensor:  # type: ignore[override]
        """The number of sequences with each step, ``(T,)``."""
        if self._padded is None:
            return self._whole[1]
        return self._padded.layout.sizes(self._padded.batch.size(0))

    @property
    def sorted_indices(self) -> Tensor | None:  # type: ignore[override]
        """The permutation that puts the longest sequence first, ``(N,)``."""
        return self._whole[2] if self._padded is None else self._padded.layout.order

    @property
    def unsorted_indices(self) -> Tensor | None:  # type: ignore[override]
        """The inverse of ``sorted_indices``, ``(N,)``."""
        return self._whole[3] if self._padded is None else self._padded.layout.rank

    def __iter__(self) -> Iterator[Any]:
        return iter(self._elements())

    def __repr__(self) -> str:
        named = zip(self._fields, self._elements(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={each!r}' for name, each in named)})"

    def __radd__(self, other: tuple[object, ...]) -> tuple[object, ...]:
        return other + tuple(self)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), tuple(self)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """``data`` converted as by `Tensor.to`, with the indices moved to its device."""
        if self._padded is not None:
            batch, layout = self._padded
            moved = batch.to(*args, **kwargs)
            return self if moved is batch else self._of_padded(moved, layout.to(moved.device))
        data, sizes, *indices = self._elements()
        moved = data.to(*args, **kwargs)
        if moved is data:
            return self
        where = moved.device
        indices = [None if each is None else each.to(where) for each in indices]
        layout = None if self._layout is None else self._layout.to(where)
        return self._of_steps((moved, sizes, *indices), layout, self._count)

    def cuda(self, device: DeviceLike = None) -> PackedSequence:
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
        return (self.data if self._padded is None else self._padded.batch).is_cuda

    def pin_memory(self) -> PackedSequence:
        """The sequences unchanged; JAX decides how it moves memory."""
        return self

    def is_pinned(self) -> bool:
        """``False``; JAX decides how it moves memory."""
        return False


_NOTHING = (None,) * 4


def _of_the_elements(name: str) -> Callable[..., object]:
    """A method of tuples, applied to the elements of a `PackedSequence`."""
    whole = getattr(tuple, name)

    def method(self: PackedSequence, *others: object) -> object:
        plain = (tuple(each) if isinstance(each, PackedSequence) else each for each in others)
        return whole(tuple(self), *plain)

    method.__name__ = name
    method.__doc__ = whole.__doc__
    return method


for _name in (
    "__add__", "__contains__", "__eq__", "__ge__", "__getitem__", "__gt__", "__hash__", "__le__",
    "__lt__", "__mul__", "__ne__", "__rmul__", "count", "index",
):  # fmt: skip
    setattr(PackedSequence, _name, _of_the_elements(_name))


def _take_apart(sequence: PackedSequence) -> tuple[Elements, tuple[object, ...]]:
    """Its tensors, and the metadata that is the same for all lengths."""
    padded = sequence._padded
    if padded is None or is_from_outside(padded.batch):
        return sequence._elements(), (sequence._known_count(),)
    layout = padded.layout
    return (padded.batch, layout.lengths, *layout.given), (layout.in_order, "padded")


def _put_together(fixed: tuple[Any, ...], tensors: Iterable[Any]) -> PackedSequence:
    if len(fixed) == 1:
        return PackedSequence._of_steps(tuple(tensors), count=fixed[0])
    padded, lengths, order, rank = tensors
    return PackedSequence._of_padded(padded, Layout(lengths, None, fixed[0], order, rank))


def _has_elements(sequence: PackedSequence) -> bool:
    return sequence._padded is None or sequence._padded.layout.known is not None


_PARTS = pytree.OwnParts(_take_apart, _put_together, _has_elements)
pytree.register_parts(PackedSequence, _PARTS)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The inverse of a permutation ``(N,)``, or ``None`` for ``None``.

    >>> import flambeau
    >>> from flambeau.nn.utils.rnn import invert_permutation
    >>> invert_permutation(flambeau.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()
