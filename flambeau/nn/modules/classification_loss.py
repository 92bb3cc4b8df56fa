"""Losses for classes and for sequences of classes; see `flambeau.nn.modules.loss`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.common_types import DeviceLike, DTypeLike
from flambeau.nn.modules.linear import Linear
from flambeau.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
from flambeau.nn.modules.loss_base import _Loss, _WeightedLoss

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CrossEntropyLoss",
    "LinearCrossEntropyLoss",
    "NLLLoss",
    "NLLLoss2d",
]


class NLLLoss(_WeightedLoss):
    """Minus the log-probability of the target class.

    Shapes: ``(N, C)``, ``(C,)`` or ``(N, C, *)``, and targets without ``C``.

    Args:
        weight: ``(C,)``, a factor for each class; the mean is then weighted too.
        size_average: Deprecated; see ``reduction``.
        ignore_index: A target value that is ignored.
        reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    __constants__: list[str] = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """`NLLLoss`, which accepts images as well. Deprecated."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warn("NLLLoss2d is deprecated; use NLLLoss", FutureWarning)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Minus the log-probability of the target class under the softmax of the input.

    Shapes: ``(N, C)``, ``(C,)`` or ``(N, C, *)``, and targets without ``C``; or probabilities as
    targets, with ``C``.

    Args:
        weight: ``(C,)``, a factor for each class; the mean is then weighted too.
        size_average: Deprecated; see ``reduction``.
        ignore_index: A target value that is ignored.
        reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: The share, from 0 to 1, of the uniform distribution in the target.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.CrossEntropyLoss()(flambeau.zeros(2, 5), flambeau.tensor([1, 3]))
    tensor(1.6094)
    """

    __constants__: list[str] = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """A `Linear` map to class scores followed by `CrossEntropyLoss`, in one.

    Shapes: ``(N, in_features)`` and targets ``(N, *out_features)``, or probabilities
    ``(N, num_classes, *out_features)``; without ``N`` if there are no ``out_features``.

    Args:
        in_features: Size of the last dimension of the input.
        num_classes: The number of classes.
        out_features: Further dimensions of the targets, for several targets per sample.
        bias: Whether the linear map has a bias.
        device: The device of the parameters.
        dtype: The dtype of the parameters.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: ``(num_classes,)``, a factor for each class.
        ignore_index: A target value that is ignored, by default -100 if targets are classes.
        label_smoothing: The share, from 0 to 1, of the uniform distribution in the target.
        options: Options that save memory.

    Raises:
        RuntimeError: ``weight`` has another shape, or ``label_smoothing`` is out of range.
    """

    __constants__: list[str] = [
        "num_classes",
        "out_features",
        "reduction",
        "ignore_index",
        "label_smoothing",
    ]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"weight must have a factor for each of {num_classes} classes, "
                f"got shape {list(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"label_smoothing must be from 0 to 1, got {label_smoothing}")
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear: Linear = Linear(
            in_features, math.prod(out_features, start=num_classes), bias, device, dtype
        )
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        scores = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*scores, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(scores),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class BCELoss(_WeightedLoss):
    """``-(y * log(x) + (1 - y) * log(1 - x))``, the cross entropy of two classes.

    Logarithms are clamped to at least -100, so that the loss is finite.

    Shapes: any, twice the same; probabilities.

    Args:
        weight: A factor for each element, in a shape that broadcasts.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    __constants__: list[str] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """`BCELoss` of the sigmoid of the input, without overflow.

    ``-(pos_weight * y * log(sigmoid(x)) + (1 - y) * log(1 - sigmoid(x)))``.

    Shapes: any, twice the same.

    Args:
        weight: A factor for each element, in a shape that broadcasts.
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        pos_weight: A factor for the first term, in a shape that broadcasts.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class CTCLoss(_Loss):
    """Connectionist temporal classification: a loss for unaligned sequences of classes.

    Minus the log-probability of the target, summed over all alignments with the input that repeat
    classes and insert blanks. See Graves and others, "Connectionist temporal classification", 2006.

    Shapes: log-probabilities ``(T, N, C)`` or ``(T, C)``; targets ``(N, S)`` or concatenated in one
    vector; lengths ``(N,)`` or ``()``. Gives ``(N,)`` or ``()`` before reduction.

    Args:
        blank: The class that means no label.
        reduction: ``"mean"``, where each loss is divided by the length of its target first,
            ``"sum"`` or ``"none"``.
        zero_infinity: Set the losses of targets that do not fit into their inputs to 0, and their
            gradients.
    """

    __constants__: list[str] = ["blank", "reduction"]

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int] | int,
        target_lengths: Tensor | Sequence[int] | int,
    ) -> Tensor:
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
