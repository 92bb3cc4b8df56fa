"""Tables indexed by integers."""

from __future__ import annotations

from importlib import import_module

from flambeau.core.dtype import int64
from flambeau.core.misfits import require_tensors
from flambeau.core.modes import no_grad
from flambeau.core.overrides import asks
from flambeau.core.tensor import Tensor
from flambeau.ops.neural import embedding as ops
from flambeau.ops.values import check_below, concrete_values

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
    """The rows of ``weight`` that ``input`` names.

    Args:
        input: Integers, any shape.
        weight: ``(num_embeddings, embedding_dim)``.
        padding_idx: A row that takes no gradient; negative counts from the end.
        max_norm: First scale the named rows of ``weight`` down to this norm, in place.
        norm_type: Which norm ``max_norm`` means.
        scale_grad_by_freq: Divide the gradient of each row by how often ``input`` names it.
        sparse: Let the gradient of a leaf be sparse, with the rows that ``input`` names.

    Returns:
        ``(*input.shape, embedding_dim)``.

    Raises:
        ValueError: ``padding_idx`` is no row of ``weight``.
        IndexError: ``input`` names a row that does not exist. In compiled functions, and on other
            devices than the CPU, the result is NaN there instead.
        RuntimeError: ``input`` is neither int64 nor int32, or ``weight`` is no matrix; or both
            ``sparse`` and ``scale_grad_by_freq`` are set, and a gradient is wanted.
    """
    rows = _rows("embedding", weight)
    if padding_idx is not None:
        padding_idx = _row("embedding", padding_idx, rows)
    check_below("embedding", "index", input, rows)
    if max_norm is not None:
        _renormalize(input, weight, max_norm, norm_type)
    if sparse:
        # Few programs use it.
        embed = import_module("flambeau.sparse.embedding").embedding
        return embed(input, weight, padding_idx, scale_grad_by_freq)
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
        input: Integers: ``(B, N)``, bags of one size; or ``(L,)``, bags one after the other.
        weight: ``(num_embeddings, embedding_dim)``.
        offsets: ``(B,)``, where each bag of a 1-d input begins.
        max_norm: First scale the named rows of ``weight`` down to this norm, in place.
        norm_type: Which norm ``max_norm`` means.
        scale_grad_by_freq: Divide the gradient of each row by how often ``input`` names it.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        sparse: Accepted; gradients are dense.
        per_sample_weights: As ``input``, a factor for each row; for ``mode="sum"``.
        include_last_offset: The last of ``offsets`` is where the last bag ends.
        padding_idx: A row that counts for nothing; negative counts from the end.

    Returns:
        ``(B, embedding_dim)``, zeros for empty bags.

    Raises:
        ValueError: Shapes or options do not match.
        RuntimeError: ``offsets`` do not begin with 0, or go beyond the input; ``input`` or
            ``padding_idx`` names a row that does not exist.
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
    """Zeros, with a one at each class index.

    Args:
        tensor: Classes, int64, any shape.
        num_classes: How many classes there are; -1 for one more than the greatest, which a
            compiled function cannot know.

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
    classes = concrete_values(tensor)
    if num_classes == -1:
        if classes is None:
            classes = tensor.numpy(force=True)
        if not classes.size:
            raise RuntimeError("one_hot(): an empty tensor does not tell the number of classes")
        num_classes = int(classes.max()) + 1
    elif num_classes < 1:
        raise RuntimeError(f"one_hot(): num_classes must be positive, got {num_classes}")
    if classes is not None and classes.size:
        lowest, highest = classes.min(), classes.max()
        if lowest < 0 or highest >= num_classes:
            raise RuntimeError(
                f"one_hot(): classes must be from 0 to {num_classes - 1}, got {lowest} to {highest}"
            )
    return ops.one_hot(tensor, num_classes)
