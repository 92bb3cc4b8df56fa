"""Lookup tables of vectors, indexed by integers."""

from __future__ import annotations

from typing import Self

from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.common_types import DeviceLike, DTypeLike
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.ops.factories.creation import empty

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """The base of both layers: a weight with a row for each integer."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None

    def _make_weight(
        self, given: Tensor | None, frozen: bool, device: DeviceLike, dtype: DTypeLike
    ) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        if given is None:
            weight = empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(weight, requires_grad=not frozen)
            self.reset_parameters()
            return
        if tuple(given.shape) != shape:
            raise AssertionError(
                f"the given weight has shape {list(given.shape)}, but num_embeddings and "
                f"embedding_dim are {list(shape)}"
            )
        self.weight: Parameter = Parameter(given, requires_grad=not frozen)

    def reset_parameters(self) -> None:
        """Redraw all rows, except the padding row, which becomes 0."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


def _row(padding_idx: int | None, rows: int) -> int | None:
    """``padding_idx`` counted from the start.

    Raises:
        AssertionError: There is no such row.
    """
    if padding_idx is None or padding_idx == 0:
        return padding_idx
    if not -rows <= padding_idx < rows:
        raise AssertionError(
            f"padding_idx must be a row of the table, from {-rows} to {rows - 1}, got {padding_idx}"
        )
    return padding_idx % rows


def _check_matrix(embeddings: Tensor) -> None:
    if embeddings.dim() != 2:
        raise AssertionError(
            f"pretrained embeddings must be a matrix, got shape {list(embeddings.shape)}"
        )


class Embedding(_Table):
    """A lookup table: integers become the rows with these indices.

    Shapes: integers ``(*)`` to ``(*, embedding_dim)``.

    Args:
        num_embeddings: The number of rows; integers go from 0 to one less.
        embedding_dim: The size of a row.
        padding_idx: A row that is 0 at first and takes no gradient; negative counts from the end.
        max_norm: Scale rows that are looked up down to this norm, in place.
        norm_type: The order of the norm for ``max_norm``.
        scale_grad_by_freq: Divide the gradient of each row by its frequency in the input.
        sparse: Make the gradient of ``weight`` sparse, for `optim.SparseAdam` and `optim.SGD`.
        device: The device of the table.
        dtype: The dtype of the table.

    Attributes:
        weight: ``(num_embeddings, embedding_dim)``, normally distributed at first.

    Raises:
        AssertionError: ``padding_idx`` is not a row.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Embedding(10, 3)(flambeau.tensor([[1, 2, 4, 5], [4, 3, 2, 9]])).shape
    flambeau.Size([2, 4, 3])
    """

    __constants__: list[str] = [
        "num_embeddings", "embedding_dim", "padding_idx", "max_norm", "norm_type",
        "scale_grad_by_freq", "sparse",
    ]  # fmt: skip
    _repr_attributes = (
        "*num_embeddings", "*embedding_dim", ("padding_idx", None), ("max_norm", None),
        ("norm_type", 2), ("scale_grad_by_freq", False), ("sparse", False),
    )  # fmt: skip

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx: int | None = _row(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make_weight(_weight, _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """The rows with the indices ``input``."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """A layer on the elements of ``embeddings``.

        Args:
            embeddings: ``(num_embeddings, embedding_dim)``.
            freeze: Whether the table takes no gradient.
            padding_idx: See the class, like all following arguments.
            max_norm: Scale rows that are looked up down to this norm, in place.
            norm_type: The order of the norm for ``max_norm``.
            scale_grad_by_freq: Divide the gradient of each row by its frequency in the input.
            sparse: Kept as an attribute.

        Raises:
            AssertionError: ``embeddings`` is not a matrix.
        """
        _check_matrix(embeddings)
        rows, columns = embeddings.shape
        return cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(_Table):
    """Sums, means or maxima of bags of rows, without materializing the rows.

    Shapes: integers ``(B, S)``, a bag in each row, to ``(B, embedding_dim)``; or integers ``(S,)``
    and ``offsets`` ``(B,)``, the start of each bag, to the same.

    Args:
        num_embeddings: The number of rows; integers go from 0 to one less.
        embedding_dim: The size of a row.
        max_norm: Scale rows that are looked up down to this norm, in place.
        norm_type: The order of the norm for ``max_norm``.
        scale_grad_by_freq: Divide the gradient of each row by its frequency in the input; not with
            ``mode="max"``.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: Kept as an attribute; gradients are dense.
        include_last_offset: Whether ``offsets`` has one more entry, the length of the input.
        padding_idx: A row that is 0 at first, takes no gradient and does not count; negative
            counts from the end.
        device: The device of the table.
        dtype: The dtype of the table.

    Attributes:
        weight: ``(num_embeddings, embedding_dim)``, normally distributed at first.

    Raises:
        AssertionError: ``padding_idx`` is not a row.
    """

    __constants__: list[str] = [
        "num_embeddings", "embedding_dim", "max_norm", "norm_type", "scale_grad_by_freq", "mode",
        "sparse", "include_last_offset", "padding_idx",
    ]  # fmt: skip
    _repr_attributes = (
        "*num_embeddings", "*embedding_dim", ("max_norm", None), ("norm_type", 2),
        ("scale_grad_by_freq", False), "mode!r", ("padding_idx", None),
    )  # fmt: skip

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self.padding_idx: int | None = _row(padding_idx, num_embeddings)
        self._make_weight(_weight, False, device, dtype)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        """One vector for each bag.

        Args:
            input: Integers, ``(B, S)`` or ``(S,)``.
            offsets: The start of each bag in ``input``, if ``input`` has one dimension.
            per_sample_weights: A factor for each integer, with ``mode="sum"``.
        """
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """A layer on the elements of ``embeddings``.

        Args:
            embeddings: ``(num_embeddings, embedding_dim)``.
            freeze: Whether the table takes no gradient.
            max_norm: See the class, like all following arguments.
            norm_type: The order of the norm for ``max_norm``.
            scale_grad_by_freq: Divide the gradient of each row by its frequency in the input.
            mode: ``"sum"``, ``"mean"`` or ``"max"``.
            sparse: Kept as an attribute.
            include_last_offset: Whether ``offsets`` has one more entry.
            padding_idx: A row that takes no gradient and does not count.

        Raises:
            AssertionError: ``embeddings`` is not a matrix.
        """
        _check_matrix(embeddings)
        rows, columns = embeddings.shape
        layer = cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        layer.weight.requires_grad = not freeze
        return layer
