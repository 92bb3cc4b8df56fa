"""AdamW."""

from __future__ import annotations

from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.optim.adam import Adam
from flambeau.optim.optimizer import Parameters

__all__ = ["AdamW"]


class AdamW(Adam):
    """`Adam` with decoupled weight decay: θ ← θ − γ λ θ before the step, instead of g ← g + λ θ.

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html; Loshchilov and
    Hutter, *Decoupled Weight Decay Regularization* (2017).

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: Learning rate.
        betas: Decay rates of the two running averages.
        eps: Added to the denominator.
        weight_decay: The coefficient of the decoupled weight decay.
        amsgrad: Use the AMSGrad variant.
        maximize: Maximize the objective instead of minimizing it.
        foreach: Accepted; all parameters are always updated in one program.
        capturable: Like ``foreach``.
        differentiable: Record the step on the tape.
        fused: Like ``foreach``.

    Raises:
        ValueError: A number is out of its range.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # A state saved by Adam, or before this option existed, also decays as AdamW here.
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
