"""Batch normalization with the statistics of the batches of all processes."""

from __future__ import annotations

from typing import Any

from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.arguments import size_of
from flambeau.distributed.nn.functional import all_reduce
from flambeau.distributed.tensor.spreading import lies
from flambeau.nn.modules.batchnorm import SyncBatchNorm
from flambeau.ops.factories.creation import full
from flambeau.ops.shapes.shape import cat

__all__: list[str] = []


def batch_norm(layer: SyncBatchNorm, input: Tensor, momentum: Any) -> Tensor | None:
    """The input, normalized, with the running statistics of ``layer`` updated.

    Args:
        layer: The layer, in training.
        input: This process's part of the batch, ``(N, C, *)``.
        momentum: The share of a batch in the new running statistics.

    Returns:
        ``None`` where the statistics of the input alone are wanted: the group has one process, or
        the layer lies on a mesh, so that the input is the whole batch.
    """
    given = (input, layer.weight, layer.running_mean)
    group = layer.process_group
    if size_of(group) == 1 or any(each is not None and lies(each) for each in given):
        return None
    dims = [0, *range(2, input.dim())]
    shape = [1, -1, *[1] * (input.dim() - 2)]
    values = input.float() if input.itemsize < 4 else input
    size = input.numel() // max(1, input.size(1))
    own = full((1,), float(size), dtype=values.dtype, device=values.device)
    total = all_reduce(cat([values.sum(dims), own]), group=group)
    count = total[-1]
    mean = total[:-1] / count
    centered = values - mean.reshape(shape)
    variance = all_reduce(centered.square().sum(dims), group=group) / count
    if layer.track_running_stats:
        with no_grad():
            layer.running_mean.lerp_(mean.to(layer.running_mean.dtype), momentum)
            unbiased = variance * (count / (count - 1).clamp(min=1))
            layer.running_var.lerp_(unbiased.to(layer.running_var.dtype), momentum)
    result = centered * (variance + layer.eps).rsqrt().reshape(shape)
    if layer.weight is not None:
        result = result * layer.weight.reshape(shape)
    if layer.bias is not None:
        result = result + layer.bias.reshape(shape)
    return result.to(input.dtype)
