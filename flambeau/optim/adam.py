"""Adam."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from flambeau.core.tensor import Tensor
from flambeau.optim import arithmetic as a
from flambeau.optim.checks import (
    at_least_zero,
    check_adam_betas,
    check_implementation,
    check_tensor_lr,
)
from flambeau.optim.optimizer import Parameters
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like, scalar

__all__ = ["Adam"]


class Adam(RuleOptimizer):
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
    def rule(param: Any, grad: Any, state: Named, hyper: Named, flags: Named) -> tuple[Any, Named]:
        """One step for one parameter."""
        lr, (beta1, beta2), decay = hyper["lr"], hyper["betas"], hyper["weight_decay"]
        if decay is not None:
            if flags["decoupled_weight_decay"]:
                param = a.mul(param, 1 - lr * decay)
            else:
                grad = a.add(grad, param, decay)
        step = state["step"] + 1
        average = a.lerp(state["exp_avg"], grad, 1 - beta1)
        square = a.addcmul(a.mul(state["exp_avg_sq"], beta2), grad, grad, 1 - beta2)
        new = {"step": step, "exp_avg": average, "exp_avg_sq": square}
        if flags["amsgrad"]:
            square = new["max_exp_avg_sq"] = jnp.maximum(state["max_exp_avg_sq"], square)
        count = step.astype(jnp.float64)
        denominator = a.add(a.div(a.sqrt(square), jnp.sqrt(1 - beta2**count)), hyper["eps"])
        return a.addcdiv(param, average, denominator, -(lr / (1 - beta1**count))), new
