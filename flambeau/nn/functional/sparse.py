"""Lookup tables: embeddings and one-hot vectors."""

from __future__ import annotations

from flambeau.core.operators.misfits import require_tensors
from flambeau.core.operators.overrides import asks
from flambeau.core.support.dtype import int64
from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.values import check_below, concrete_values, outside
from flambeau.ops.neural import embedding as ops

__all__ = ["embedding", "embedding_bag", "one_hot"]


@asks
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of ``weight`` with the indices ``input``.

    Args:
        input: Integers, any shape.
        weight: ``(num_embeddings, embedding_dim)``.
        padding_idx: A row that takes no gradient; negative counts from the end.
        max_norm: First scale the looked up rows of ``weight`` down to this norm, in place.
        norm_type: The order of the norm for ``max_norm``.
        scale_grad_by_freq: Divide the gradient of each row by its frequency in ``input``.
        sparse: Make the gradient of a leaf sparse, with the looked up rows only.

    Returns:
        ``(*input.shape, embedding_dim)``.

    Raises:
        ValueError: ``padding_idx`` is not a row of ``weight``.
        IndexError: An index in ``input`` is out of range. In compiled functions, and on other
            devices than the CPU, the result is NaN there instead.
        RuntimeError: ``input`` is neither int64 nor int32, or ``weight`` is not a matrix; or both
            ``sparse`` and ``scale_grad_by_freq`` are set, and a gradient is wanted.
    """
    rows = _rows("embedding", weight)
    if padding_idx is not None:
        padding_idx = _row("embedding", padding_idx, rows)
    check_below("embedding", "index", input, rows)
    if max_norm is not None:
        _renormalize(input, weight, max_norm, norm_type)
    if sparse:
        # Imported on first use: few programs need it.
        from flambeau.sparse import embedding as sparse_embedding

        return sparse_embedding.embedding(input, weight, padding_idx, scale_grad_by_freq)
    return ops.embedding(input, weight, padding_idx, scale_grad_by_freq)


def _rows(name: str, weight: Tensor) -> int:
    try:
        rows, _ = weight.shape
    except AttributeError:
        require_tensors(name, weight=weight)
        raise
    except ValueError:
        shape = list(weight.shape)
        raise RuntimeError(f"{name}(): weight must be 2-d, got shape {shape}") from None
    return rows


def _row(name: str, padding_idx: int, rows: int) -> int:
    if not -rows <= padding_idx < rows:
        raise ValueError(
            f"{name}(): padding_idx must be a row of the weight, from {-rows} to {rows - 1}, "
            f"got {padding_idx}"
        )
    return padding_idx % rows


def _renormalize(input: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    if not isinstance(max_norm, int | float):
        kind = type(max_norm).__name__
        raise TypeError(f"embedding(): max_norm must be a number, got {kind}: {max_norm!r:.80}")
    with no_grad():
        weight._store(
            ops.embedding_renorm(input, weight, float(max_norm), float(norm_type))._read()
        )


@asks
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of bags of rows of ``weight``.

    Args:
        input: Integers: ``(B, N)``, bags of one size; or ``(L,)``, concatenated bags.
        weight: ``(num_embeddings, embedding_dim)``.
        offsets: ``(B,)``, the start of each bag in a 1-d input.
        max_norm: First scale the looked up rows of ``weight`` down to this norm, in place.
        norm_type: The order of the norm for ``max_norm``.
        scale_grad_by_freq: Divide the gradient of each row by its frequency in ``input``.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: Accepted; gradients are dense.
        per_sample_weights: Shaped like ``input``, a factor for each row; for ``mode="sum"``.
        include_last_offset: The last of ``offsets`` is the end of the last bag.
        padding_idx: A row that is ignored; negative counts from the end.

    Returns:
        ``(B, embedding_dim)``, zeros for empty bags.

    Raises:
        ValueError: Shapes or options do not match.
        RuntimeError: ``offsets`` do not begin with 0, or exceed the input; ``input`` or
            ``padding_idx`` is out of range.
        NotImplementedError: ``per_sample_weights`` with another mode than ``"sum"``.
    """
    _check_bags(input, weight, offsets, per_sample_weights, mode, scale_grad_by_freq)
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise RuntimeError(
                f"embedding_bag(): padding_idx must be a row of the weight, from {-rows} to "
                f"{rows - 1}, got {padding_idx}"
            )
        padding_idx %= rows
    check_below("embedding_bag", "index", input, rows, error=RuntimeError)
    if max_norm is not None:
        _renormalize(input, weight, max_norm, norm_type)
    return ops.embedding_bag(
        input, weight, offsets, per_sample_weights, scale_grad_by_freq, mode, include_last_offset,
        padding_idx,
    )  # fmt: skip


def _check_bags(
    input: Tensor, weight: Tensor, offsets: Tensor | None, per_sample_weights: Tensor | None,
    mode: str, scale_grad_by_freq: bool,
) -> None:  # fmt: skip
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag(): per_sample_weights must have the shape of input, "
            f"{list(input.shape)}, got {list(per_sample_weights.shape)}"
        )
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag(): mode must be 'sum', 'mean' or 'max', got {mode!r}")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("embedding_bag(): mode='max' does not take scale_grad_by_freq")
    if weight.dim() != 2:
        raise ValueError(f"embedding_bag(): weight must be 2-d, got shape {list(weight.shape)}")
    if input.dim() not in (1, 2):
        raise ValueError(
            f"embedding_bag(): input must be 1-d or 2-d, got shape {list(input.shape)}"
        )
    if (offsets is None) != (input.dim() == 2):
        raise ValueError(
            "embedding_bag() takes offsets with a 1-d input, and none with a 2-d input; got an "
            f"input of shape {list(input.shape)}" + ("" if offsets is None else " and offsets")
        )
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag(): per_sample_weights are for mode='sum', not for {mode!r}"
        )
    if offsets is not None:
        _check_offsets(offsets, input)


def _check_offsets(offsets: Tensor, input: Tensor) -> None:
    if offsets.dim() != 1:
        raise ValueError(f"embedding_bag(): offsets must be 1-d, got {list(offsets.shape)}")
    starts = concrete_values(offsets)
    if starts is None or not starts.size:
        return
    if starts[0] != 0:
        raise RuntimeError(f"embedding_bag(): offsets must begin with 0, got {starts[0]}")
    if starts[-1] > input.numel():
        raise RuntimeError(
            f"embedding_bag(): the last of offsets is {starts[-1]}, the input has "
            f"{input.numel()} elements"
        )


@asks
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Vectors of zeros with a one at each class index.

    Args:
        tensor: Classes, int64, any shape.
        num_classes: The number of classes; -1 for one more than the greatest index, which is
            unknown in a compiled function.

    Returns:
        ``(*tensor.shape, num_classes)``, int64.

    Raises:
        RuntimeError: A class is negative or not below ``num_classes``, the dtype is not int64, or
            the number of classes is not known.

    >>> import flambeau
    >>> import flambeau.nn.functional as F
    >>> F.one_hot(flambeau.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    require_tensors("one_hot", tensor=tensor)
    if not hasattr(num_classes, "__index__"):
        kind = type(num_classes).__name__
        raise TypeError(f"one_hot(): num_classes must be an int, got {kind}: {num_classes!r:.80}")
    if tensor.dtype is not int64:
        raise RuntimeError(f"one_hot() takes int64 class indices, got {tensor.dtype}")
    if num_classes == -1:
        classes = concrete_values(tensor)
        if classes is None:
            classes = tensor._host_array()
        if not classes.size:
            raise RuntimeError("one_hot(): an empty tensor does not tell the number of classes")
        num_classes = int(classes.max()) + 1
    elif num_classes < 1:
        raise RuntimeError(f"one_hot(): num_classes must be positive, got {num_classes}")
    wrong = outside(tensor, 0, num_classes)
    if wrong is not None:
        raise RuntimeError(
            f"one_hot(): classes must be from 0 to {num_classes - 1}, got {wrong.min()} to "
            f"{wrong.max()}"
        )
    return ops.one_hot(tensor, num_classes)
