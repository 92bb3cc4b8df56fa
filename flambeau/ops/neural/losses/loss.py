"""Losses for classes and distributions: negative log-likelihoods and divergences."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array, Operand, TensorOperand
from flambeau.core.operators.op import op
from flambeau.core.support import errors
from flambeau.ops.common.checks import floating, needs_floating, same_dtype
from flambeau.ops.common.derivatives import with_derivatives
from flambeau.ops.indices.placement import inside, nan_unless
from flambeau.ops.native import cross_entropy as native

__all__: list[str] = []

REDUCTIONS = ("none", "mean", "sum")


def reduced(losses: Any, reduction: str) -> Any:
    """The mean or the sum of ``losses``, or all of them.

    Raises:
        ValueError: ``reduction`` is neither ``"none"``, ``"mean"`` nor ``"sum"``.
        RuntimeError: The mean of integers is requested.
    """
    if reduction == "mean":
        if not jnp.issubdtype(losses.dtype, jnp.inexact):
            raise RuntimeError(f"{losses.dtype} has no mean; convert the input, or sum")
        return jnp.mean(losses)
    if reduction == "sum":
        return jnp.sum(losses)
    if reduction == "none":
        return losses
    raise errors.ValueError(f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}")


# Classification


@op(widen=True, node="NllLossBackward0")
def cross_entropy(
    input: Array, target: Array, weight: Array | None = None, ignore_index: int = -100,
    reduction: str = "mean", label_smoothing: float = 0.0,
) -> Array:  # fmt: skip
    """The operator of `nn.functional.cross_entropy`; see there."""
    return cross_entropy_of(input, target, weight, ignore_index, reduction, label_smoothing)


def cross_entropy_of(
    input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, label_smoothing: float
) -> Any:
    """`cross_entropy` on arrays."""
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(
            f"cross_entropy(): label_smoothing must be from 0 to 1, got {label_smoothing}"
        )
    if input.ndim == 0:
        is_class = target.ndim == 0 and not jnp.issubdtype(target.dtype, jnp.floating)
        raise (RuntimeError if is_class else errors.IndexError)(
            "cross_entropy(): Dimension out of range: input must have at least 1 dimension, of "
            "classes; got a 0-d tensor"
        )
    axis = min(input.ndim - 1, 1)
    _check_class_weight("cross_entropy", weight, input.shape[axis])
    if target.shape == input.shape and jnp.issubdtype(target.dtype, jnp.floating):
        if ignore_index >= 0:
            raise RuntimeError(
                f"cross_entropy(): ignore_index={ignore_index} is for class indices, not for "
                f"probabilities ({target.dtype} of shape {list(target.shape)}); leave it out"
            )
        losses = _soft_cross_entropy(input, target, weight, reduction, label_smoothing, axis)
        return losses.astype(input.dtype)
    _check_weight_dtype("cross_entropy", weight, input)
    scores = scores_of(input, axis)
    found = _negative_log_likelihood(
        "cross_entropy", scores, target, weight, ignore_index, reduction, label_smoothing, axis
    )
    return found.astype(input.dtype)


class Scores(NamedTuple):
    """Log-probabilities as ``shifted - normalizer``, without an array of them.

    Attributes:
        logits: Scores for a native kernel; ``None`` if it does not support them.
    """

    shifted: Any
    normalizer: Any
    logits: Any = None

    def losses(self, index: Any, axis: int) -> Any:
        """The negative log-probabilities at ``index``, one along ``axis``, which is dropped."""
        if self.logits is not None:
            return native.cross_entropy(self.logits, jnp.squeeze(index, axis))
        return self.normalizer - _pick(self.shifted, index, axis)


def scores_of(logits: Any, axis: int) -> Scores:
    """The log-softmax of ``logits``, with half precision computed in float32."""
    wide = logits.astype(jnp.float32) if logits.dtype.itemsize == 2 else logits
    shifted = wide - jax.lax.stop_gradient(jnp.max(wide, axis, keepdims=True))
    normalizer = jnp.log(jnp.sum(jnp.exp(shifted), axis))
    return Scores(shifted, normalizer, logits if native.takes(logits, axis) else None)


def _check_class_weight(name: str, weight: Any, classes: int) -> None:
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"{name}(): weight must have one element for each of {classes} classes, "
            f"got shape {list(weight.shape)}"
        )


def _check_weight_dtype(name: str, weight: Any, input: Any) -> None:
    """Check that the weights of classes have the dtype of the input."""
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(
            f"{name}(): weight must have the dtype of the input, {input.dtype}, got "
            f"{weight.dtype}; convert it with to()"
        )


def _soft_cross_entropy(
    input: Any, target: Any, weight: Any, reduction: str, label_smoothing: float, axis: int
) -> Any:
    classes = input.shape[axis]
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    losses = -jax.nn.log_softmax(input, axis) * target
    if weight is not None:
        losses = losses * weight.reshape((-1,) + (1,) * (losses.ndim - axis - 1))
    if reduction == "mean":
        return jnp.sum(losses) / (losses.size // max(classes, 1))
    return reduced(jnp.sum(losses, axis), reduction)


def _negative_log_likelihood(
    name: str, scores: Scores, target: Any, weight: Any, ignore_index: int, reduction: str,
    label_smoothing: float, axis: int,
) -> Any:  # fmt: skip
    _check_target(name, scores.shifted, target, axis)
    losses, shares = likelihood_losses(scores, target, weight, ignore_index, label_smoothing, axis)
    return weighted_mean(losses, shares) if reduction == "mean" else reduced(losses, reduction)


def weighted_mean(losses: Any, shares: Any) -> Any:
    """The sum of weighted losses, divided by the sum of the weights."""
    return jnp.sum(losses) / jnp.sum(shares).astype(losses.dtype)


def likelihood_losses(
    scores: Scores, target: Any, weight: Any, ignore_index: int, label_smoothing: float, axis: int
) -> tuple[Any, Any]:
    """The negative log-likelihood of each target, and its weight in the mean.

    Losses of targets that are no class are NaN, and so are the gradients of their scores.
    """
    counts = target != ignore_index
    classes = scores.shifted.shape[axis]
    places = inside(jnp.where(counts, target, 0), classes)
    index = jnp.expand_dims(places, axis)
    if label_smoothing:
        # `_spread` needs the values that XLA's operators compute from all scores.
        scores = scores._replace(logits=None)
    losses = nan_unless(places < classes, scores.losses(index, axis))
    shares = jnp.ones((), losses.dtype)
    if weight is not None:
        shares = jnp.take(weight, places, mode="fill").astype(losses.dtype)
        losses = losses * shares
    if label_smoothing:
        losses = (1 - label_smoothing) * losses + label_smoothing * _spread(scores, weight, axis)
    zero = jnp.zeros_like(losses)
    return jnp.where(counts, losses, zero), jnp.where(counts, shares, zero)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _pick(input: Any, index: Any, axis: int) -> Any:
    """The elements at ``index``, one along ``axis``, which is dropped; NaN beyond the classes."""
    return jnp.squeeze(jnp.take_along_axis(input, index, axis, mode="fill"), axis)


@_pick.defjvp
def _pick_jvp(axis: int, primals: Any, tangents: Any) -> Any:
    # A select rather than another gather, so that the transpose is not a scatter: XLA fuses it into
    # the gradient of the softmax.
    input, index = primals
    # For invalid classes, all scores get the cotangent, which is NaN there.
    chosen = jax.lax.broadcasted_iota(index.dtype, input.shape, axis) == index
    chosen |= index >= input.shape[axis]
    tangent = jnp.where(chosen, tangents[0], jnp.zeros_like(tangents[0]))
    return _pick(input, index, axis), jnp.sum(tangent, axis)


def _spread(scores: Scores, weight: Any, axis: int) -> Any:
    """The mean over the classes of the negative log-probabilities, weighted."""
    shifted = scores.shifted
    classes = shifted.shape[axis]
    if weight is None:
        return scores.normalizer - jnp.sum(shifted, axis) / classes
    weights = weight.reshape((-1,) + (1,) * (shifted.ndim - axis - 1))
    total = jnp.sum(weight) * scores.normalizer
    return (total - jnp.sum(shifted * weights, axis)) / classes


def _check_target(name: str, input: Any, target: Any, axis: int) -> None:
    expected = input.shape[:axis] + input.shape[axis + 1 :]
    needs_floating(name, input)
    if axis == 1 and (target.ndim == 0 or target.shape[0] != input.shape[0]):
        raise errors.ValueError(
            f"{name}(): input of shape {list(input.shape)} and target of shape "
            f"{list(target.shape)} differ in batch size"
        )
    if target.dtype not in (jnp.int64, jnp.uint8):
        raise RuntimeError(
            f"{name}(): class indices must be int64 or uint8, got {target.dtype} of shape "
            f"{list(target.shape)} for an input of shape {list(input.shape)}; use long()"
        )
    if target.shape == expected:
        return
    error = errors.ValueError if axis == 0 and name == "nll_loss" else RuntimeError
    raise error(
        f"{name}(): an input of shape {list(input.shape)} needs a target of shape "
        f"{list(expected)}, got {list(target.shape)}"
    )


@op(widen=True, node="NllLossBackward0")
def nll_loss(input: Array, target: Array, weight: Array | None = None, ignore_index: int = -100,
             reduction: str = "mean") -> Array:  # fmt: skip
    """The operator of `nn.functional.nll_loss`; see there."""
    if input.ndim < 1:
        raise errors.ValueError(
            "nll_loss(): input must have at least 1 dimension, got a 0-d tensor"
        )
    axis = min(input.ndim - 1, 1)
    _check_class_weight("nll_loss", weight, input.shape[axis])
    _check_weight_dtype("nll_loss", weight, input)
    scores = Scores(input, jnp.zeros((), input.dtype))
    return _negative_log_likelihood(
        "nll_loss", scores, target, weight, ignore_index, reduction, 0.0, axis
    )


# Probabilities


@jax.custom_jvp
def _bernoulli_loss(input: Any, target: Any) -> Any:
    return -(target * _bounded_log(input) + (1 - target) * _bounded_log(1 - input))


def _bounded_log(x: Any) -> Any:
    # PyTorch bounds the logarithm so that a confident mistake costs 100 rather than infinity.
    return jnp.maximum(jnp.log(x), -100)


@_bernoulli_loss.defjvp
def _bernoulli_loss_jvp(primals: Any, tangents: Any) -> Any:
    input, target = primals
    of_target = jnp.log1p(-input) - jnp.log(input)
    tangent = _bernoulli_slope(input, target) * tangents[0] + of_target * tangents[1]
    return _bernoulli_loss(input, target), tangent


@with_derivatives(
    lambda tangent, result, input, target: (
        tangent * (input * input - 2 * input * target + target) / _bounded_variance(input) ** 2
    ),
    lambda tangent, result, input, target: -tangent / _bounded_variance(input),
)
def _bernoulli_slope(input: Any, target: Any) -> Any:
    return (input - target) / _bounded_variance(input)


def _bounded_variance(input: Any) -> Any:
    return jnp.maximum((1 - input) * input, 1e-12)


def _check_same_shape(name: str, input: Any, target: Any) -> None:
    if input.shape != target.shape:
        raise errors.ValueError(
            f"{name}(): Target size {list(target.shape)} must be the same as input size "
            f"{list(input.shape)}; a target size that is different is not broadcast"
        )


@op(widen=True)
def binary_cross_entropy(
    input: Array, target: Array, weight: Array | None = None, reduction: str = "mean"
) -> Array:
    """The operator of `nn.functional.binary_cross_entropy`; see there."""
    _check_same_shape("binary_cross_entropy", input, target)
    needs_floating("binary_cross_entropy", input)
    same_dtype("binary_cross_entropy", input, target)
    _check_factors("binary_cross_entropy", input.shape, weight=weight)
    losses = _bernoulli_loss(input, target)
    return reduced(_times(losses, weight), reduction)


def _check_factors(name: str, shape: tuple[int, ...], **factors: Any) -> None:
    """Check that factors are real and broadcast to ``shape``."""
    for argument, each in factors.items():
        if each is None:
            continue
        if jnp.iscomplexobj(each):
            raise RuntimeError(f"{name}(): {argument} must not be complex, got {each.dtype}")
        if len(each.shape) > len(shape) or jnp.broadcast_shapes(each.shape, shape) != shape:
            raise RuntimeError(
                f"{name}(): {argument} of shape {list(each.shape)} does not broadcast to the shape "
                f"of input, {list(shape)}"
            )


def _times(losses: Any, weight: Any) -> Any:
    """Weighted losses, in the dtype of the unweighted ones."""
    return losses if weight is None else (losses * weight).astype(losses.dtype)


@op(widen=True)
def binary_cross_entropy_with_logits(
    input: Array,
    target: Array,
    weight: Array | None = None,
    pos_weight: Array | None = None,
    reduction: str = "mean",
) -> Array:
    """The operator of `nn.functional.binary_cross_entropy_with_logits`; see there."""
    _check_same_shape("binary_cross_entropy_with_logits", input, target)
    needs_floating("binary_cross_entropy_with_logits", input)
    if not jnp.issubdtype(target.dtype, jnp.floating):
        raise RuntimeError(
            f"binary_cross_entropy_with_logits(): target must be floating point, got {target.dtype}"
        )
    name = "binary_cross_entropy_with_logits"
    _check_factors(name, input.shape, weight=weight, pos_weight=pos_weight)
    negative_log = jnp.logaddexp(-input, jnp.zeros_like(input))
    if pos_weight is not None:
        negative_log = ((pos_weight - 1) * target + 1) * negative_log
    losses = (1 - target) * input + negative_log
    # PyTorch multiplies into a tensor like the target, so the losses have its dtype.
    return reduced(_times(losses, weight).astype(target.dtype), reduction)


@op(widen=True, promote="type")
def kl_div(
    input: TensorOperand, target: TensorOperand, reduction: str = "mean", log_target: bool = False
) -> Array:
    """The operator of `nn.functional.kl_div`; see there."""
    needs_floating("kl_div", input, target)
    if log_target:
        losses = jnp.exp(target) * (target - input)
    else:
        losses = jax.scipy.special.xlogy(target, target) - target * input
    if reduction == "batchmean":
        total = jnp.sum(losses)
        return total / input.shape[0] if input.ndim else total
    return reduced(losses, reduction)


@op(widen=True, promote="type", node="MeanBackward0")
def poisson_nll_loss(
    input: TensorOperand, target: TensorOperand, log_input: bool = True, full: bool = False,
    eps: float = 1e-8, reduction: str = "mean",
) -> Array:  # fmt: skip
    """The operator of `nn.functional.poisson_nll_loss`; see there."""
    input, target = floating(input, target)
    if log_input:
        losses = jnp.exp(input) - target * input
    else:
        losses = input - target * jnp.log(input + jnp.asarray(eps, input.dtype))
    if full:
        large = target > 1
        count = jnp.where(large, target, jnp.ones_like(target))
        stirling = count * jnp.log(count) - count + 0.5 * jnp.log(2 * math.pi * count)
        losses = losses + jnp.where(large, stirling, jnp.zeros_like(target))
    return reduced(losses, reduction)


@jax.custom_jvp
def _at_least(x: Any, bound: Any) -> Any:
    """The greater of the two, with the gradient of ``x`` itself."""
    return jnp.maximum(x, bound)


@_at_least.defjvp
def _at_least_jvp(primals: Any, tangents: Any) -> Any:
    return _at_least(*primals), tangents[0]


@op(widen=True, promote="type", node="MeanBackward0")
def gaussian_nll_loss(
    input: TensorOperand, target: Operand, var: Operand, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Array:  # fmt: skip
    """The operator of `nn.functional.gaussian_nll_loss`; see there."""
    bounded = _at_least(var, jnp.asarray(eps, var.dtype))
    losses = 0.5 * (jnp.log(bounded) + jnp.square(input - target) / bounded)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, reduction)
