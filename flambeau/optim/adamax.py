"""Adamax."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.optim.checks import at_least_zero, check_betas, one_element
from flambeau.optim.optimizer import Parameters
from flambeau.optim.precision import number
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like, scalar

__all__ = ["Adamax"]


class Adamax(RuleOptimizer):
    """Adam with a decaying maximum of the gradient instead of the average square.

    With gradient g, parameter θ, weight decay λ, learning rate γ and t counting the steps:

    - g ← g + λ θ
    - m ← β₁ m + (1 − β₁) g
    - u ← max(β₂ u, abs(g) + ε)
    - θ ← θ − γ m / ((1 − β₁ᵗ) u)

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adamax.html; Kingma and Ba,
    *Adam: A Method for Stochastic Optimization* (2014), section 7.1.

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: Learning rate.
        betas: Decay rates of the average and of the maximum.
        eps: Added to the magnitude of the gradient.
        weight_decay: L2 penalty.
        foreach: Accepted; all parameters are always updated in one program.
        maximize: Maximize the objective instead of minimizing it.
        differentiable: Record the step on the tape.
        capturable: Like ``foreach``.

    Raises:
        ValueError: A number is out of its range.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "betas", "eps", "weight_decay")
    switches: ClassVar[tuple[str, ...]] = ("weight_decay",)

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        one_element(lr=lr)
        at_least_zero(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """The number of steps, the running average and the decaying maximum."""
        return {"step": scalar(), "exp_avg": like(param), "exp_inf": like(param)}

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter."""
        beta1, beta2 = hyper["betas"]
        if hyper["weight_decay"] is not None:
            grad = grad + hyper["weight_decay"] * param
        step = state["step"] + 1
        average = (1 - beta1) * grad + beta1 * state["exp_avg"]
        largest = jnp.maximum(jnp.abs(grad) + hyper["eps"], beta2 * state["exp_inf"])
        update = average / (1 - beta1 ** number(step)) / largest
        return param - hyper["lr"] * update, {
            "step": step, "exp_avg": average, "exp_inf": largest,
        }  # fmt: skip
