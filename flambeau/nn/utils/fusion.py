"""Merging batch normalization in evaluation into the preceding layer."""

from __future__ import annotations

import copy
from typing import TypeVar

from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module
from flambeau.nn.modules.batchnorm import _BatchNorm
from flambeau.nn.modules.linear import Linear
from flambeau.nn.parameter import Parameter
from flambeau.ops.elementwise.pointwise import rsqrt
from flambeau.ops.factories.creation import ones_like, zeros_like

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]

AnyConv = TypeVar("AnyConv", bound=Module)
AnyLinear = TypeVar("AnyLinear", bound=Linear)


def fuse_conv_bn_eval(conv: AnyConv, bn: _BatchNorm, transpose: bool = False) -> AnyConv:
    """A convolution with the same result as ``conv`` followed by ``bn`` in evaluation.

    Args:
        conv: The convolution; it is not changed.
        bn: The batch normalization after it, with running statistics.
        transpose: Whether the convolution is a transposed one.

    Raises:
        AssertionError: One of the two is in training mode, or there are no running statistics.
    """
    mean, variance = _running_statistics(conv, bn)
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, mean, variance, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of `fuse_conv_bn_eval`, from weights, bias and running statistics.

    Args:
        conv_w: The convolution's weight.
        conv_b: Its bias, or ``None``.
        bn_rm: The running mean.
        bn_rv: The running variance.
        bn_eps: The number added to the variance.
        bn_w: The normalization's weight, or ``None``.
        bn_b: Its bias, or ``None``.
        transpose: Whether the output channels are the weight's second dimension.
    """
    others = [1] * (conv_w.dim() - 2)
    shape = [1, -1, *others] if transpose else [-1, 1, *others]
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_eval(linear: AnyLinear, bn: _BatchNorm) -> AnyLinear:
    """A linear layer with the same result as ``linear`` followed by ``bn`` in evaluation.

    Args:
        linear: The layer; it is not changed.
        bn: The batch normalization after it, with running statistics; its features are the layer's
            output features, or 1.

    Raises:
        AssertionError: One of the two is in training mode, the features do not match, or there are
            no running statistics.
    """
    mean, variance = _running_statistics(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            f"cannot fuse a linear layer of out_features={linear.out_features} with a batch "
            f"normalization of num_features={bn.num_features}: they must be equal, or the latter 1"
        )
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        linear.weight, linear.bias, mean, variance, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of `fuse_linear_bn_eval`; arguments as for `fuse_conv_bn_weights`."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _running_statistics(layer: Module, bn: _BatchNorm) -> tuple[Tensor, Tensor]:
    if layer.training or bn.training:
        raise AssertionError(
            "layers can be fused in evaluation only; call eval() on both of them first"
        )
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("a batch normalization without running statistics cannot be fused")
    return bn.running_mean, bn.running_var


def _fused(
    weight: Tensor, bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float,
    scale: Tensor | None, shift: Tensor | None, shape: list[int],
) -> tuple[Parameter, Parameter]:  # fmt: skip
    wants_grad = weight.requires_grad, False if bias is None else bias.requires_grad
    dtypes = weight.dtype, weight.dtype if bias is None else bias.dtype
    with no_grad():
        bias = zeros_like(mean) if bias is None else bias
        factor = (ones_like(mean) if scale is None else scale) * rsqrt(variance + eps)
        fused = (bias - mean) * factor + (zeros_like(mean) if shift is None else shift)
        scaled = (weight * factor.reshape(shape)).to(dtypes[0])
        return Parameter(scaled, wants_grad[0]), Parameter(fused.to(dtypes[1]), wants_grad[1])
