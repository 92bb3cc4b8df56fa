"""Functions of layers at the top of the namespace, with their positional arguments there.

`flambeau.nn.functional` has the same functions with better arguments. A ``reduction`` here is a
number: 0 for ``"none"``, 1 for ``"mean"`` and 2 for ``"sum"``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.operators.overrides import asking_functions
from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional

__all__ = [
    "adaptive_avg_pool1d", "adaptive_max_pool1d", "alpha_dropout", "alpha_dropout_", "batch_norm",
    "binary_cross_entropy_with_logits", "celu_", "convolution", "cosine_embedding_loss", "ctc_loss",
    "dropout", "dropout_", "embedding", "feature_alpha_dropout", "feature_alpha_dropout_",
    "feature_dropout", "feature_dropout_", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d",
    "group_norm", "hinge_embedding_loss", "instance_norm", "kl_div", "layer_norm",
    "margin_ranking_loss", "max_pool1d_with_indices", "poisson_nll_loss", "rrelu", "rrelu_",
    "selu_", "threshold_", "triplet_margin_loss",
]  # fmt: skip

celu_: Callable[..., Tensor] = functional.celu_
rrelu_: Callable[..., Tensor] = functional.rrelu_
selu_: Callable[..., Tensor] = functional.selu_
threshold_: Callable[..., Tensor] = functional.threshold_


def _reduction(name: str, number: int) -> str:
    """The name of a reduction.

    Raises:
        ValueError: ``number`` is not a reduction.
    """
    if number not in (0, 1, 2):
        raise ValueError(
            f"{name}(): reduction must be 0 (none), 1 (mean) or 2 (sum), got {number!r}; "
            f"nn.functional.{name} takes the names"
        )
    return ("none", "mean", "sum")[number]


# Normalization


def batch_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    """See `nn.functional.batch_norm`; ``cudnn_enabled`` has no effect."""
    return functional.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )


def instance_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any,
    use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    """See `nn.functional.instance_norm`; ``cudnn_enabled`` has no effect."""
    return functional.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def layer_norm(
    input: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:  # fmt: skip
    """See `nn.functional.layer_norm`; ``cudnn_enable`` has no effect."""
    return functional.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Any:  # fmt: skip
    """See `nn.functional.group_norm`; ``cudnn_enabled`` has no effect."""
    return functional.group_norm(input, num_groups, weight, bias, eps)


# Dropout


def dropout(input: Tensor, p: float, train: bool) -> Any:
    """See `nn.functional.dropout`."""
    return functional.dropout(input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Any:
    """`dropout`, in place."""
    return functional.dropout(input, p, train, inplace=True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Any:
    """See `nn.functional.alpha_dropout`."""
    return functional.alpha_dropout(input, p, train)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Any:
    """`alpha_dropout`, in place."""
    return functional.alpha_dropout(input, p, train, inplace=True)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Any:
    """See `nn.functional.feature_alpha_dropout`."""
    return functional.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Any:
    """`feature_alpha_dropout`, in place."""
    return functional.feature_alpha_dropout(input, p, train, inplace=True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Any:
    """Dropout of whole channels: all dimensions after the first two.

    Raises:
        RuntimeError: ``input`` has fewer than two dimensions.
    """
    if input.ndim < 2:
        raise RuntimeError(
            f"feature_dropout() drops channels, the second dimension; got shape {list(input.shape)}"
        )
    ones = input.new_ones(tuple(input.shape[:2]) + (1,) * (input.ndim - 2))
    return input * functional.dropout(ones, p, train)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Any:
    """`feature_dropout`, in place."""
    return input.copy_(feature_dropout(input, p, train))


# Layers


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    """See `nn.functional.embedding`; a ``padding_idx`` of -1 means none."""
    return functional.embedding(
        indices, weight, None if padding_idx < 0 else padding_idx,
        scale_grad_by_freq=scale_grad_by_freq, sparse=sparse,
    )  # fmt: skip


def convolution(
    input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    """A convolution over all dimensions of the weight after the first two.

    See `nn.functional.conv2d`, or if ``transposed`` `nn.functional.conv_transpose2d`.

    Raises:
        RuntimeError: There is no convolution over this number of dimensions.
    """
    dimensions = weight.ndim - 2
    if dimensions not in (1, 2, 3):
        raise RuntimeError(
            f"convolution() takes weights of 3 to 5 dimensions, got shape {list(weight.shape)}"
        )
    if transposed:
        run = getattr(functional, f"conv_transpose{dimensions}d")
        return run(input, weight, bias, stride, padding, output_padding, groups, dilation)
    run = getattr(functional, f"conv{dimensions}d")
    return run(input, weight, bias, stride, padding, dilation, groups)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Any:
    """See `nn.functional.adaptive_avg_pool1d`."""
    return functional.adaptive_avg_pool1d(input, output_size)


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> Any:
    """The maxima and their indices; see `nn.functional.adaptive_max_pool1d`."""
    return functional.adaptive_max_pool1d(input, output_size, return_indices=True)


def max_pool1d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """The maxima and their indices; see `nn.functional.max_pool1d`."""
    return functional.max_pool1d(
        input, kernel_size, stride or None, padding, dilation, ceil_mode, return_indices=True
    )


def rrelu(
    input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False,
    generator: Any = None,
) -> Any:  # fmt: skip
    """See `nn.functional.rrelu`.

    Raises:
        NotImplementedError: A generator is given.
    """
    if generator is not None:
        raise NotImplementedError("rrelu() draws from the default generator of the device")
    return functional.rrelu(input, lower, upper, training)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """See `nn.functional.grid_sample`.

    Args:
        input: The images.
        grid: The sampling positions.
        interpolation_mode: 0 for ``"bilinear"``, 1 for ``"nearest"``, 2 for ``"bicubic"``.
        padding_mode: 0 for ``"zeros"``, 1 for ``"border"``, 2 for ``"reflection"``.
        align_corners: See `nn.functional.grid_sample`.
    """
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]
    return functional.grid_sample(input, grid, mode, padding, align_corners)


grid_sampler_2d = grid_sampler
grid_sampler_3d = grid_sampler


# Losses


def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Any:
    """See `nn.functional.kl_div`."""
    name = _reduction("kl_div", reduction)
    # PyTorch warns of the mean over all elements in `nn.functional`, but here it is requested by
    # number.
    loss = functional.kl_div(input, target, reduction="none", log_target=log_target)
    return loss if name == "none" else getattr(loss, name)()


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
    """See `nn.functional.poisson_nll_loss`."""
    name = _reduction("poisson_nll_loss", reduction)
    return functional.poisson_nll_loss(
        input, target, log_input=log_input, full=full, eps=eps, reduction=name
    )


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1
) -> Any:
    """See `nn.functional.hinge_embedding_loss`."""
    name = _reduction("hinge_embedding_loss", reduction)
    return functional.hinge_embedding_loss(input, target, margin, reduction=name)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Any:
    """See `nn.functional.margin_ranking_loss`."""
    name = _reduction("margin_ranking_loss", reduction)
    return functional.margin_ranking_loss(input1, input2, target, margin, reduction=name)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int = 1,
) -> Any:  # fmt: skip
    """See `nn.functional.triplet_margin_loss`."""
    name = _reduction("triplet_margin_loss", reduction)
    return functional.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=name
    )


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Any:
    """See `nn.functional.cosine_embedding_loss`."""
    name = _reduction("cosine_embedding_loss", reduction)
    return functional.cosine_embedding_loss(input1, input2, target, margin, reduction=name)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Any:
    """See `nn.functional.binary_cross_entropy_with_logits`."""
    name = _reduction("binary_cross_entropy_with_logits", reduction)
    return functional.binary_cross_entropy_with_logits(
        input, target, weight, reduction=name, pos_weight=pos_weight
    )


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: int = 1, zero_infinity: bool = False,
) -> Any:  # fmt: skip
    """See `nn.functional.ctc_loss`."""
    name = _reduction("ctc_loss", reduction)
    return functional.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, name, zero_infinity
    )


asking_functions += [
    value
    for name, value in list(globals().items())
    if name in __all__ and value not in asking_functions and not hasattr(value, "op")
]
