"""Losses with a margin between samples that should be close and samples that should be far."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Operand, TensorOperand
from flambeau.core.operators.op import op
from flambeau.core.support import errors
from flambeau.ops.common.checks import floating, needs_floating
from flambeau.ops.elementwise.selection import at_least
from flambeau.ops.indices.placement import inside, nan_unless
from flambeau.ops.matrices.norms import norm_of
from flambeau.ops.neural.losses.loss import reduced

__all__: list[str] = []


def positive_part(x: Any) -> Any:
    """``max(x, 0)`` with slope 1 at 0, like PyTorch's clamp."""
    return at_least(x, jnp.zeros((), x.dtype))


@op(widen=True, node="MeanBackward0")
def hinge_embedding_loss(
    input: TensorOperand, target: TensorOperand, margin: float = 1.0, reduction: str = "mean"
) -> Array:
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1; in the dtype of ``x``."""
    zero = jnp.zeros_like(input)
    far = jnp.where(target != 1, positive_part(margin - input), zero)
    near = jnp.where(target != -1, input, zero)
    return reduced(far + near, reduction)


@op(widen=True)
def soft_margin_loss(input: TensorOperand, target: TensorOperand, reduction: str = "mean") -> Array:
    """``log(1 + exp(-t * x))`` for targets of 1 and -1, in the dtype of ``x``."""
    needs_floating("soft_margin_loss", input)
    scores = -target * input
    losses = jnp.logaddexp(scores, jnp.zeros_like(scores)).astype(input.dtype)
    return reduced(losses, reduction)


@op(widen=True, promote="type", node="MeanBackward0")
def margin_ranking_loss(
    input1: Operand, input2: Operand, target: Operand, margin: float = 0.0, reduction: str = "mean"
) -> Array:
    """The operator of `nn.functional.margin_ranking_loss`; see there."""
    if not input1.ndim == input2.ndim == target.ndim:
        shapes = [list(each.shape) for each in (input1, input2, target)]
        raise RuntimeError(
            f"margin_ranking_loss(): the tensors must have as many dimensions, got shapes {shapes}"
        )
    input1, input2, target = floating(input1, input2, target)
    return reduced(positive_part(-target * (input1 - input2) + margin), reduction)


@op(widen=True, node="MeanBackward0")
def cosine_embedding_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0.0, reduction: str = "mean"
) -> Array:
    """The operator of `nn.functional.cosine_embedding_loss`; see there."""
    if target.ndim not in (0, 1) or not input1.ndim == input2.ndim == target.ndim + 1:
        shapes = [list(each.shape) for each in (input1, input2, target)]
        raise RuntimeError(
            "cosine_embedding_loss() takes inputs of shape (N, D) and a target of shape (N,), or "
            f"(D,) and a 0-d target, got shapes {shapes}"
        )
    input1, input2 = floating(input1, input2)
    product = jnp.sum(input1 * input2, -1)
    tiny = jnp.asarray(1e-12, product.dtype)
    first = jnp.sum(input1 * input1, -1) + tiny
    second = jnp.sum(input2 * input2, -1) + tiny
    cosine = product / jnp.sqrt(first * second)
    zero = jnp.zeros_like(cosine)
    near = jnp.where(target == 1, 1 - cosine, zero)
    far = jnp.where(target == -1, positive_part(cosine - margin), zero)
    return reduced(near + far, reduction)


def _check_classes(name: str, input: Any, target: Any, per_class: bool) -> None:
    expected = input.shape if per_class else input.shape[:-1]
    if input.ndim not in (0, 1, 2) or (input.ndim and input.shape[-1] == 0):
        raise RuntimeError(
            f"{name}() takes an input of shape (N, C) or (C,) with C > 0, got {list(input.shape)}"
        )
    if target.dtype != jnp.int64:
        raise RuntimeError(f"{name}(): targets must be int64 class indices, got {target.dtype}")
    if target.size != jnp.zeros(expected).size or target.ndim > max(input.ndim, 1):
        raise RuntimeError(
            f"{name}(): an input of shape {list(input.shape)} needs a target of shape "
            f"{list(expected)}, got {list(target.shape)}"
        )


@op(widen=True)
def multi_margin_loss(
    input: Array,
    target: Array,
    p: float = 1,
    margin: float = 1.0,
    weight: Array | None = None,
    reduction: str = "mean",
) -> Array:
    """The operator of `nn.functional.multi_margin_loss`; see there."""
    if p not in (1, 2):
        raise errors.ValueError(f"multi_margin_loss(): p must be 1 or 2, got {p}")
    _check_classes("multi_margin_loss", input, target, per_class=False)
    rows = input.reshape((-1, input.shape[-1] if input.ndim else 1))
    classes = rows.shape[1]
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(
            f"multi_margin_loss(): weight is {weight.dtype}, the input {input.dtype}; convert one"
        )
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"multi_margin_loss(): weight must have shape [{classes}], got {list(weight.shape)}"
        )
    index = inside(target.reshape(-1, 1), classes)
    own = jnp.take_along_axis(rows, index, 1, mode="fill")
    lacking = margin - own + rows
    counts = (lacking > 0) | (index >= classes)
    costs = jnp.where(counts, lacking if p == 1 else jnp.square(lacking), 0)
    costs = jnp.where(jnp.arange(classes) == index, jnp.zeros_like(costs), costs)
    if weight is not None:
        costs = costs * weight[index]
    losses = nan_unless(index[:, 0] < classes, jnp.sum(costs, 1) / classes)
    return reduced(losses.reshape(target.shape), reduction)


@op(widen=True, node="MultilabelMarginLossBackward0")
def multilabel_margin_loss(input: Array, target: Array, reduction: str = "mean") -> Array:
    """The operator of `nn.functional.multilabel_margin_loss`; see there."""
    _check_classes("multilabel_margin_loss", input, target, per_class=True)
    classes = input.shape[-1] if input.ndim else 1
    rows, targets = input.reshape(-1, classes), target.reshape(-1, classes)
    counts = jnp.cumprod(targets >= 0, 1).astype(bool)
    index = inside(jnp.where(counts, targets, 0), classes)
    named = jax.nn.one_hot(index, classes, dtype=jnp.int32) * counts[..., None]
    is_target = jnp.sum(named, 1) > 0
    own = jnp.take_along_axis(rows, index, 1, mode="fill")
    lacking = 1 - own[:, :, None] + rows[:, None, :]
    taken = counts[:, :, None] & ~is_target[:, None, :] & (lacking > 0)
    costs = jnp.sum(jnp.where(taken, lacking, jnp.zeros_like(lacking)), (1, 2)) / classes
    costs = nan_unless(jnp.all((targets >= -1) & (targets < classes), 1), costs)
    return reduced(costs.reshape(input.shape[:-1]), reduction)


@op(widen=True, promote="type", node="MeanBackward0")
def multilabel_soft_margin_loss(
    input: TensorOperand,
    target: Operand,
    weight: Array | None = None,
    reduction: str = "mean",
) -> Array:
    """The operator of `nn.functional.multilabel_soft_margin_loss`; see there."""
    if input.ndim == 0:
        raise errors.IndexError(
            "multilabel_soft_margin_loss(): a 0-d input has no dimension of labels"
        )
    labels = input.ndim - 1
    zero = jnp.zeros_like(input)
    losses = target * jnp.logaddexp(-input, zero) + (1 - target) * jnp.logaddexp(input, zero)
    if weight is not None:
        losses = losses * weight
    # The mean is over the labels of the input, for any shape of the target, as in PyTorch.
    return reduced(jnp.sum(losses, labels) / input.shape[labels], reduction)


def _triplet(near: Any, far: Any, apart: Any, margin: float, reduction: str) -> Any:
    if apart is not None:
        far = jnp.minimum(far, apart)
    return reduced(positive_part(near - far + margin), reduction)


@op(widen=True, promote="type", node="MeanBackward0")
def triplet_margin_loss(
    anchor: Operand,
    positive: Operand,
    negative: Operand,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Array:
    """The operator of `nn.functional.triplet_margin_loss`; see there."""
    if not anchor.ndim == positive.ndim == negative.ndim:
        shapes = [list(each.shape) for each in (anchor, positive, negative)]
        raise RuntimeError(
            f"triplet_margin_loss(): the tensors must have as many dimensions, got shapes {shapes}"
        )
    anchor, positive, negative = floating(anchor, positive, negative)

    def distance(one: Any, other: Any) -> Any:
        difference = one - other + eps
        return norm_of(difference, float(p), (difference.ndim - 1,), False)

    near, far = distance(anchor, positive), distance(anchor, negative)
    apart = distance(positive, negative) if swap else None
    return _triplet(near, far, apart, margin, reduction)


@op(widen=True, promote="type", node="MeanBackward0")
def triplet_of_distances(
    near: Operand,
    far: Operand,
    apart: Operand | None,
    margin: float,
    reduction: str = "mean",
) -> Array:
    """``max(0, near - far + margin)``, ``far`` at most ``apart`` if that is given."""
    return _triplet(near, far, apart, margin, reduction)
