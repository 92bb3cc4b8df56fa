"""Batch normalization (https://arxiv.org/abs/1502.03167)."""

from __future__ import annotations

from typing import Any

from flambeau.core.devices import spanning
from flambeau.core.operators.writing import all_or_none
from flambeau.core.support import dtype as dtypes
from flambeau.core.support.higher import higher
from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn import init
from flambeau.nn.common_types import DeviceLike, DTypeLike, Kwargs, StateDict
from flambeau.nn.module import Module
from flambeau.nn.modules.lazy import LazyModuleMixin
from flambeau.nn.parameter import (
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
    UninitializedTensorMixin,
)
from flambeau.ops.factories.creation import empty, ones, zeros

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """The base of batch and instance normalization: parameters and running statistics."""

    # Version 2 added num_batches_tracked.
    _version = 2
    __constants__: list[str] = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    _repr_attributes = (
        "*num_features",
        "eps",
        "momentum",
        "affine",
        "bias?",
        "track_running_stats",
    )

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = Parameter(empty(num_features, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, value)
        if track_running_stats:
            self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype))
            self.register_buffer(
                "num_batches_tracked", zeros((), device=device, dtype=dtypes.int64)
            )
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running mean to 0, the running variance to 1, and the count of batches to 0."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset the weight to 1, the bias to 0, and the running statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        """Raise ValueError unless ``input`` has a number of dimensions that this layer accepts."""
        raise NotImplementedError(f"{type(self).__name__} does not define _check_input_dim()")

    def _load_from_state_dict(
        self,
        state_dict: StateDict,
        prefix: str,
        local_metadata: Kwargs,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats:
            count = self.num_batches_tracked
            if count is None or count.is_meta:
                count = zeros((), dtype=dtypes.int64)
            state_dict.setdefault(f"{prefix}num_batches_tracked", count)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


def _check_dims(name: str, input: Tensor, allowed: tuple[int, ...]) -> None:
    """Raise ValueError unless ``input`` has one of the numbers of dimensions."""
    if input.dim() not in allowed:
        raise ValueError(
            f"{name} takes an input of {' or '.join(map(str, allowed))} dimensions, "
            f"got shape {list(input.shape)}"
        )


class _BatchNorm(_NormBase):
    """Batch normalization of an input of any shape ``(N, C, *)``."""

    def forward(self, input: Tensor) -> Tensor:
        """``input`` normalized by its own statistics in training, else by the running ones."""
        self._check_input_dim(input)
        if self.training and self.track_running_stats:
            buffers = self.num_batches_tracked, self.running_mean, self.running_var
            given = [each for each in buffers if isinstance(each, Tensor)]
            return all_or_none(given, lambda: self._normalized(input))
        return self._normalized(input)

    def _normalized(self, input: Tensor) -> Tensor:
        tracks = self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and tracks and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                # The share of each of n batches is 1/n. The count stays on its device.
                momentum = self.num_batches_tracked.double().reciprocal()
        mean, variance = self.running_mean, self.running_var
        uses_batch = self.training or (mean is None and variance is None)
        if self.training and not tracks:
            mean = variance = None
        return self._batch_norm(input, mean, variance, uses_batch, momentum)

    def _batch_norm(
        self,
        input: Tensor,
        mean: Tensor | None,
        variance: Tensor | None,
        uses_batch: bool,
        momentum: Any,
    ) -> Tensor:
        return F.batch_norm(
            input, mean, variance, self.weight, self.bias, uses_batch, momentum, self.eps
        )


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """A normalization that takes ``num_features`` from the channels of its first input."""

    weight: Any
    bias: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean: UninitializedBuffer = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var: UninitializedBuffer = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked: Tensor = zeros((), device=device, dtype=dtypes.int64)

    def reset_parameters(self) -> None:
        """Reset everything, if it has a shape."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Give parameters and buffers one element for each channel of ``input``."""
        if self.num_features == 0:
            self.num_features: int = self._channels_of(input)
        if self.has_uninitialized_params():
            for member in (*self._parameters.values(), *self._buffers.values()):
                if isinstance(member, UninitializedTensorMixin):
                    member.materialize((self.num_features,))
            self.reset_parameters()

    def _channels_of(self, input: Tensor) -> int:
        if input.dim() < 2:
            raise IndexError(
                f"{type(self).__name__} takes its channels from dimension 1 of the input, which "
                f"has shape {list(input.shape)}"
            )
        return input.shape[1]


class BatchNorm1d(_BatchNorm):
    """Batch normalization of features, or of channels over time; see `BatchNorm2d`.

    Shapes: ``(N, C)`` or ``(N, C, L)`` to the same.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        _check_dims("BatchNorm1d", input, (2, 3))


class BatchNorm2d(_BatchNorm):
    """Each channel with mean 0 and variance 1 over batch and space, scaled and shifted.

    ``y = (x - mean) / sqrt(var + eps) * weight + bias``. In training the statistics are those of
    the batch, and the running statistics are updated in place: ``running = (1 - momentum) * running
    + momentum * batch``, with the unbiased variance of the batch. In evaluation the running
    statistics are used.

    Shapes: ``(N, C, H, W)`` to the same.

    Args:
        num_features: The number of channels ``C``.
        eps: Added to the variance.
        momentum: The share of a batch in the new running statistics; ``None`` means the cumulative
            average over all batches.
        affine: Whether there are a learned ``weight`` and ``bias``; otherwise they are ``None``.
        track_running_stats: Whether there are running statistics; otherwise they are ``None``, and
            those of the batch are used in evaluation too.
        device: The device of parameters and buffers.
        dtype: The dtype of parameters and running statistics.
        bias: Whether there is a ``bias``, if ``affine``.

    Attributes:
        weight: ``(C,)``, 1 at first.
        bias: ``(C,)``, 0 at first.
        running_mean: ``(C,)``, 0 at first; a buffer.
        running_var: ``(C,)``, 1 at first; a buffer.
        num_batches_tracked: The number of batches in training so far; an int64 buffer.

    Raises:
        ValueError: In `forward`: the input has another number of dimensions, or in training only
            one value per channel.

    >>> import flambeau
    >>> from flambeau import nn
    >>> layer = nn.BatchNorm2d(3)
    >>> layer(flambeau.ones(2, 3, 2, 2)).mean().item()
    0.0
    >>> layer.running_mean
    tensor([0.1000, 0.1000, 0.1000])
    """

    def _check_input_dim(self, input: Tensor) -> None:
        _check_dims("BatchNorm2d", input, (4,))


class BatchNorm3d(_BatchNorm):
    """Batch normalization of volumes; see `BatchNorm2d`.

    Shapes: ``(N, C, D, H, W)`` to the same.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        _check_dims("BatchNorm3d", input, (5,))


class SyncBatchNorm(_BatchNorm):
    """Batch normalization with the statistics of the whole batch, over all devices.

    Processes that compute with parts of a batch of their own exchange the statistics of their
    parts in training. The mean of a tensor on a mesh is the mean over all devices, so there this is
    plain batch normalization of ``(N, C, *)``; see `BatchNorm2d`.

    Shapes: ``(N, C, *)`` to the same.

    Args:
        num_features: The number of channels ``C``.
        eps: See `BatchNorm2d`, like all following except ``process_group``.
        momentum: The share of a batch in the new running statistics.
        affine: Whether there are a learned ``weight`` and ``bias``.
        track_running_stats: Whether there are running statistics.
        process_group: The processes; by default all.
        device: The device of parameters and buffers.
        dtype: The dtype of parameters and running statistics.
        bias: Whether there is a ``bias``, if ``affine``.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: object = None,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(
                f"SyncBatchNorm takes an input of at least 2 dimensions, got {list(input.shape)}"
            )
        if input.size(1) == 0:
            raise ValueError(
                f"SyncBatchNorm takes an input with channels, got shape {list(input.shape)}"
            )

    def _batch_norm(
        self,
        input: Tensor,
        mean: Tensor | None,
        variance: Tensor | None,
        uses_batch: bool,
        momentum: Any,
    ) -> Tensor:
        if self.training and spanning.world > 1:
            normalize = higher("flambeau.distributed.normalization.batch_norm")
            found = normalize(self, input, momentum)
            if found is not None:
                return found
        return super()._batch_norm(input, mean, variance, uses_batch, momentum)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: object = None) -> Module:
        """``module`` with every batch normalization replaced by a `SyncBatchNorm`.

        Args:
            module: Changed in place, unless it is a batch normalization itself. Parameters and
                buffers stay the same objects.
            process_group: Passed on to the new layers.
        """
        converted = module
        if isinstance(module, _BatchNorm):
            converted = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                converted.weight = module.weight
                converted.bias = module.bias
            converted.running_mean = module.running_mean
            converted.running_var = module.running_var
            converted.num_batches_tracked = module.num_batches_tracked
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm1d` that takes ``num_features`` from its first input."""

    cls_to_become: type[Module] | None = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm2d` that takes ``num_features`` from its first input."""

    cls_to_become: type[Module] | None = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm3d` that takes ``num_features`` from its first input."""

    cls_to_become: type[Module] | None = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim
