"""Adam."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.tensor import Tensor
from flambeau.optim.checks import (
    at_least_zero,
    check_adam_betas,
    check_implementation,
    check_tensor_lr,
)
from flambeau.optim.optimizer import Parameters
from flambeau.optim.precision import number
from flambeau.optim.rule import Entry, Named, like, scalar
from flambeau.optim.transformed import TransformedOptimizer, decayed

__all__ = ["Adam"]


class Adam(TransformedOptimizer):
    """Adam: steps scaled by running averages of the gradient and of its square.

    With gradient g, parameter θ, weight decay λ, learning rate γ and t counting the steps:

    - g ← g + λ θ, or θ ← θ − γ λ θ with ``decoupled_weight_decay``
    - m ← β₁ m + (1 − β₁) g
    - v ← β₂ v + (1 − β₂) g²
    - θ ← θ − γ (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)

    With ``amsgrad`` the largest v so far stands in the last line.

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html; Kingma and Ba,
    *Adam: A Method for Stochastic Optimization* (2014); Reddi et al., *On the Convergence of Adam
    and Beyond* (2018).

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: Learning rate.
        betas: Decay rates of the two running averages.
        eps: Added to the denominator.
        weight_decay: L2 penalty.
        amsgrad: Use the AMSGrad variant.
        foreach: Accepted; all parameters are always updated in one program.
        maximize: Go up the gradient instead of down.
        capturable: As ``foreach``.
        differentiable: Record the step on the tape.
        fused: As ``foreach``.
        decoupled_weight_decay: Decay the weights themselves, as `AdamW` does.

    Raises:
        ValueError: A number is out of its range.
    """

    numbers = ("lr", "betas", "eps", "weight_decay")
    switches = ("weight_decay",)
    flags = ("amsgrad", "decoupled_weight_decay")
    names: ClassVar = {
        "count": "step", "mu": "exp_avg", "nu": "exp_avg_sq", "nu_max": "max_exp_avg_sq",
    }  # fmt: skip

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_tensor_lr(lr, foreach, capturable)
        at_least_zero(lr=lr, eps=eps, weight_decay=weight_decay)
        check_adam_betas(betas, foreach, capturable)
        check_implementation(foreach, fused, differentiable)
        defaults = {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }  # fmt: skip
        super().__init__(params, defaults)

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """The number of steps, and the running averages."""
        found = {"step": scalar(), "exp_avg": like(param), "exp_avg_sq": like(param)}
        if group["amsgrad"]:
            found["max_exp_avg_sq"] = like(param)
        return found

    @staticmethod
    def transformations(state: Named, hyper: Named, flags: Named) -> tuple[Any, ...]:
        """Optax's Adam, with the weight decay before or after it."""
        import optax

        (beta1, beta2), eps = hyper["betas"], hyper["eps"]
        decay = decayed(hyper["weight_decay"])
        rate = optax.scale_by_learning_rate(hyper["lr"])
        if flags["amsgrad"]:
            # PyTorch corrects the bias of the largest average, and optax takes the largest of the
            # corrected ones; so optax gets no bias to correct here, and the rest is two factors.
            correction = jnp.sqrt(1 - beta2 ** number(state["step"] + 1))
            scaled = optax.chain(
                optax.scale_by_amsgrad(beta1, beta2, eps * correction, bias_correction_nu=False),
                optax.scale(correction),
            )
        else:
            scaled = optax.scale_by_adam(beta1, beta2, eps)
        if flags["decoupled_weight_decay"]:
            return scaled, decay, rate
        return decay, scaled, rate
