"""Instance normalization (https://arxiv.org/abs/1607.08022)."""

from __future__ import annotations

from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.common_types import DeviceLike, DTypeLike, Kwargs, StateDict
from flambeau.nn.module import Module
from flambeau.nn.modules.batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    """Instance normalization; the subclass sets the number of spatial dimensions."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self) -> int:
        """The number of dimensions of an input without a batch."""
        raise NotImplementedError(f"{type(self).__name__} does not define _get_no_batch_dim()")

    def _check_input_dim(self, input: Tensor) -> None:
        unbatched = self._get_no_batch_dim()
        if input.dim() not in (unbatched, unbatched + 1):
            raise ValueError(
                f"{type(self).__name__} takes an input of {unbatched} or {unbatched + 1} "
                f"dimensions, got shape {list(input.shape)}"
            )

    def _handle_no_batch_input(self, input: Tensor) -> Tensor:
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def forward(self, input: Tensor) -> Tensor:
        """``input`` normalized by its own statistics, or in evaluation by running ones.

        Raises:
            ValueError: ``input`` has another number of dimensions, or, with ``affine``, of
                channels.
        """
        self._check_input_dim(input)
        unbatched = self._get_no_batch_dim()
        channels = input.size(input.dim() - unbatched)
        if channels != self.num_features:
            self._complain_of_channels(channels, input)
        if input.dim() == unbatched:
            return self._handle_no_batch_input(input)
        return self._apply_instance_norm(input)

    def _complain_of_channels(self, channels: int, input: Tensor) -> None:
        found = (
            f"an input of shape {list(input.shape)} has {channels} channels, but num_features is "
            f"{self.num_features}"
        )
        if self.affine:
            raise ValueError(found)
        warn(f"{found}, which affine=False makes no use of")

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
        # Before version 2 running statistics were saved even if they were not used.
        if local_metadata.get("version") is None and not self.track_running_stats:
            names = (f"{prefix}running_mean", f"{prefix}running_var")
            found = [name for name in names if name in state_dict]
            if found:
                error_msgs.append(
                    f"{' and '.join(found)} cannot be loaded into a {type(self).__name__} with "
                    "track_running_stats=False: leave them out of the state, or set "
                    "track_running_stats=True if they are wanted"
                )
            for name in found:
                state_dict.pop(name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of channels over time; see `InstanceNorm2d`.

    Shapes: ``(N, C, L)`` or ``(C, L)`` to the same.
    """

    def _get_no_batch_dim(self) -> int:
        return 2


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each sample with mean 0 and variance 1 over space, scaled and shifted.

    ``y = (x - mean) / sqrt(var + eps) * weight + bias``.

    Shapes: ``(N, C, H, W)`` or ``(C, H, W)`` to the same.

    Args:
        num_features: The number of channels ``C``.
        eps: Added to the variance.
        momentum: The share of a batch in the new running statistics.
        affine: Whether there are a learned ``weight`` and ``bias``; otherwise they are ``None``.
        track_running_stats: Whether there are running statistics, to be used in evaluation.
        device: The device of parameters and buffers.
        dtype: The dtype of parameters and running statistics.
        bias: Whether there is a ``bias``, if ``affine``.
    """

    def _get_no_batch_dim(self) -> int:
        return 3


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of volumes; see `InstanceNorm2d`.

    Shapes: ``(N, C, D, H, W)`` or ``(C, D, H, W)`` to the same.
    """

    def _get_no_batch_dim(self) -> int:
        return 4


class _LazyInstanceNorm(_LazyNormBase, _InstanceNorm):
    """An instance normalization that takes ``num_features`` from its first input."""

    def _channels_of(self, input: Tensor) -> int:
        self._check_input_dim(input)
        return input.shape[input.dim() - self._get_no_batch_dim()]


class LazyInstanceNorm1d(_LazyInstanceNorm):
    """An `InstanceNorm1d` that takes ``num_features`` from its first input.

    Unlike `InstanceNorm1d` it is affine and has running statistics by default.
    """

    cls_to_become: type[Module] | None = InstanceNorm1d
    _get_no_batch_dim = InstanceNorm1d._get_no_batch_dim


class LazyInstanceNorm2d(_LazyInstanceNorm):
    """An `InstanceNorm2d` that takes ``num_features`` from its first input.

    Unlike `InstanceNorm2d` it is affine and has running statistics by default.
    """

    cls_to_become: type[Module] | None = InstanceNorm2d
    _get_no_batch_dim = InstanceNorm2d._get_no_batch_dim


class LazyInstanceNorm3d(_LazyInstanceNorm):
    """An `InstanceNorm3d` that takes ``num_features`` from its first input.

    Unlike `InstanceNorm3d` it is affine and has running statistics by default.
    """

    cls_to_become: type[Module] | None = InstanceNorm3d
    _get_no_batch_dim = InstanceNorm3d._get_no_batch_dim
