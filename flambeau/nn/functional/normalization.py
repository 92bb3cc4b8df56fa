"""Normalization, with running statistics updated in place."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.core.operators.overrides import asks
from flambeau.core.values.tensor import Tensor
from flambeau.ops.neural import normalization as ops
from flambeau.ops.neural.normalization import group_norm, layer_norm, local_response_norm, rms_norm

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize",
    "rms_norm",
]  # fmt: skip


@asks
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of ``input`` with mean 0 and variance 1, scaled and shifted.

    Args:
        input: ``(N, C, ...)``.
        running_mean: ``(C,)``, the mean to use, and with ``training`` to update in place.
        running_var: ``(C,)``, the variance to use or update.
        weight: ``(C,)``.
        bias: ``(C,)``.
        training: Normalize by the batch's own statistics.
        momentum: The share of this batch in the new running statistics.
        eps: Added to the variance.

    Raises:
        ValueError: ``training`` with a single value per channel, or ``eps`` is not positive.
        RuntimeError: Sizes do not match, or running statistics are missing in evaluation.
    """
    result = ops.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    return _with_statistics(result, running_mean, running_var)


def _with_statistics(
    result: Tensor | tuple[Tensor, ...], running_mean: Tensor | None, running_var: Tensor | None
) -> Tensor:
    if isinstance(result, Tensor):
        return result
    output, mean, variance = result
    if running_mean is not None and running_var is not None:
        running_mean._store(mean._read())
        running_var._store(variance._read())
    return output


@asks
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Each channel of each sample with mean 0 and variance 1, scaled and shifted.

    See `batch_norm` for the arguments.

    Args:
        input: ``(N, C, ...)``.
        running_mean: ``(C,)``.
        running_var: ``(C,)``.
        weight: ``(C,)``.
        bias: ``(C,)``.
        use_input_stats: Normalize by the samples' own statistics.
        momentum: The share of this batch in the new running statistics.
        eps: Added to the variance.

    Raises:
        ValueError: A sample has a single value per channel.
        RuntimeError: Sizes do not match, or running statistics are missing but needed.
    """
    if use_input_stats and input.shape[2:].numel() == 1:
        raise ValueError(
            "instance_norm(): more than 1 spatial element is needed for statistics, got an input "
            f"of shape {list(input.shape)}"
        )
    result = ops.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )
    return _with_statistics(result, running_mean, running_var)


@asks
def normalize(
    input: Tensor,
    p: float = 2.0,
    dim: int | Sequence[int] = 1,
    eps: float = 1e-12,
    out: Tensor | None = None,
) -> Tensor:
    """``input`` divided by its ``p``-norm along ``dim``, or by ``eps`` if that is greater."""
    if out is None:
        return ops.normalize(input, p, dim, eps)
    return ops.normalize(input, p, dim, eps, out=out)
