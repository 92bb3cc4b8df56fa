"""Dropout of elements and of whole channels."""

from __future__ import annotations

from collections.abc import Callable

from flambeau.core.operators.misfits import require_tensors
from flambeau.core.operators.overrides import asks
from flambeau.core.support.warning import warn
from flambeau.core.values.strides import memory_order
from flambeau.core.values.tensor import Tensor
from flambeau.nn.functional._in_place import stored
from flambeau.ops.draws.sampling import keep_mask
from flambeau.ops.neural.masking import keep_scaled, keep_self_normalizing
from flambeau.ops.selections.selection import Selection

__all__ = [
    "alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout",
]  # fmt: skip


def _check_probability(name: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}(): the dropout probability must be from 0 to 1, got {p}")


@asks
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability ``p`` and divide the others by ``1 - p``.

    Args:
        input: Any shape.
        p: The probability of dropping an element.
        training: In evaluation the input is returned unchanged.
        inplace: Overwrite the input.

    Raises:
        ValueError: ``p`` is not from 0 to 1.
    """
    if p < 0.0 or p > 1.0:
        _check_probability("dropout", p)
    if not training or p == 0:
        return input
    return stored(input, keep_scaled(input, _mask_of(input, p), p), inplace, "dropout")


def _mask_of(input: Tensor, p: float) -> Tensor:
    """The mask of kept elements; PyTorch draws them in memory order."""
    if isinstance(input, Selection):
        return input.like(_mask_of(input.lanes, p))
    try:
        view = input._view
    except AttributeError:
        require_tensors("dropout", input=input)
        raise
    if view is None:
        return keep_mask(input.shape, p, device=input.device)
    order = memory_order(view, input._cell.array.shape, input._cell.array.dtype)
    mask = keep_mask([input.size(dim) for dim in order], p, device=input.device)
    return mask.permute([order.index(dim) for dim in range(len(order))])


def _drop_channels(
    combine: Callable[[Tensor, Tensor, float], Tensor],
    input: Tensor,
    p: float,
    inplace: bool,
    name: str,
) -> Tensor:
    if input.dim() < 2:
        raise RuntimeError(f"{name}(): the input must have channels, got shape {list(input.shape)}")
    shape = (*input.shape[:2], *(1,) * (input.dim() - 2))
    mask = keep_mask(shape, p, device=input.device)
    return stored(input, combine(input, mask, p), inplace, name)


@asks
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of ``(N, C, L)`` or ``(C, L)``, each with probability ``p``.

    Raises:
        ValueError: ``p`` is not from 0 to 1.
        RuntimeError: The input has another number of dimensions.
    """
    _check_probability("dropout1d", p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d() takes an input of shape (N, C, L) or (C, L), got {list(input.shape)}"
        )
    return _batched(input, p, training, inplace, "dropout1d", with_batch=3)


@asks
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of ``(N, C, H, W)``, each with probability ``p``.

    A 3-d input is interpreted as ``(N, C, L)``, with a warning.

    Raises:
        ValueError: ``p`` is not from 0 to 1.
    """
    _check_probability("dropout2d", p)
    if input.dim() == 3:
        warn(
            "dropout2d() takes a 3-d input as (N, C, L) and drops its channels; "
            "use dropout1d() to say so, or unsqueeze(0) for a single (C, H, W)",
        )
    elif input.dim() != 4:
        _warn_of_shape("dropout2d", "(N, C, H, W)", input, "two dimensions are batch and channels")
    return _batched(input, p, training, inplace, "dropout2d", with_batch=None)


@asks
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zero whole channels of ``(N, C, D, H, W)`` or ``(C, D, H, W)``, with probability ``p``.

    Raises:
        ValueError: ``p`` is not from 0 to 1.
    """
    _check_probability("dropout3d", p)
    if input.dim() not in (4, 5):
        _warn_of_shape(
            "dropout3d", "(N, C, D, H, W) or (C, D, H, W)", input, "dimension is channels"
        )
    return _batched(input, p, training, inplace, "dropout3d", with_batch=5)


def _warn_of_shape(name: str, expected: str, input: Tensor, first: str) -> None:
    warn(
        f"{name}() takes an input of shape {expected}, got {list(input.shape)}; its first {first}",
    )


def _batched(
    input: Tensor, p: float, training: bool, inplace: bool, name: str, with_batch: int | None
) -> Tensor:
    """Drop channels of an input with ``with_batch`` dimensions; any other input has no batch."""
    if not training or p == 0:
        return input
    if with_batch is None or input.dim() == with_batch:
        return _drop_channels(keep_scaled, input, p, inplace, name)
    result = _drop_channels(keep_scaled, input.unsqueeze(0), p, False, name).squeeze(0)
    return stored(input, result, inplace, name)


@asks
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Set each element to SELU's floor with probability ``p``, keeping mean and variance.

    Klambauer et al., Self-Normalizing Neural Networks, https://arxiv.org/abs/1706.02515

    Raises:
        ValueError: ``p`` is not from 0 to 1.
    """
    _check_probability("alpha_dropout", p)
    if not training or p == 0:
        return input
    result = keep_self_normalizing(input, _mask_of(input, p), p)
    return stored(input, result, inplace, "alpha_dropout")


@asks
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """`alpha_dropout` of whole channels of ``(N, C, ...)``.

    Raises:
        ValueError: ``p`` is not from 0 to 1.
        RuntimeError: The input has no channels.
    """
    _check_probability("feature_alpha_dropout", p)
    if not training or p == 0:
        return input
    return _drop_channels(keep_self_normalizing, input, p, inplace, "feature_alpha_dropout")
