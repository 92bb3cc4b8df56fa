"""Losses for numbers, and for distributions over numbers; see `flambeau.nn.modules.loss`."""

from __future__ import annotations

from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.loss_base import _Loss

__all__ = [
    "GaussianNLLLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
]


class L1Loss(_Loss):
    """``abs(x - y)``.

    Shapes: any, twice the same.

    Args:
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    __constants__: list[str] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """``(x - y) ** 2``.

    Shapes: any, twice the same.

    Args:
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    __constants__: list[str] = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """``(x - y)**2 / (2 * beta)`` where ``abs(x - y) < beta``, else ``abs(x - y) - beta / 2``.

    Shapes: any, twice the same.

    Args:
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        beta: The threshold between quadratic and linear; 0 gives `L1Loss`.
    """

    __constants__: list[str] = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """``(x - y)**2 / 2`` where ``abs(x - y) < delta``, else ``delta * (abs(x - y) - delta / 2)``.

    Shapes: any, twice the same.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        delta: The threshold between quadratic and linear.

    Raises:
        TypeError: ``delta`` is not a number.
    """

    __constants__: list[str] = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, float | int):
            raise TypeError(f"delta must be a number, got a {type(delta).__name__}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """Minus the log-likelihood of counts under Poisson distributions.

    ``exp(x) - y * x`` for a logarithm ``x`` of the rate, ``x - y * log(x + eps)`` for the rate.

    Shapes: any, twice the same.

    Args:
        log_input: Whether the input is the logarithm of the rate.
        full: Add the term of the target alone, by Stirling's formula:
            ``y * log(y) - y + log(2 * pi * y) / 2`` where ``y > 1``.
        size_average: Deprecated; see ``reduction``.
        eps: Keeps the logarithm of the rate finite.
        reduce: Deprecated; see ``reduction``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    __constants__: list[str] = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Minus the log-likelihood of numbers under normal distributions with given variances.

    ``(log(var) + (x - y)**2 / var) / 2``.

    Shapes: any, twice the same; the variance too, or with a last dimension of size 1, or without
    its last dimension.

    Args:
        full: Add the constant ``log(2 * pi) / 2``.
        eps: The least variance.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    __constants__: list[str] = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class KLDivLoss(_Loss):
    """The Kullback-Leibler divergence ``y * (log(y) - x)``, of log-probabilities ``x``.

    Shapes: any, twice the same.

    Args:
        size_average, reduce: Deprecated; see ``reduction``.
        reduction: ``"batchmean"``, the sum divided by the size of the batch, as in the mathematical
            definition; ``"mean"``, ``"sum"`` or ``"none"``.
        log_target: Whether the targets are log-probabilities too.
    """

    __constants__: list[str] = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)
