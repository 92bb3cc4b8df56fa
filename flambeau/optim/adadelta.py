"""Adadelta."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.optim.checks import at_least_zero, one_element
from flambeau.optim.optimizer import Parameters
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like, scalar

__all__ = ["Adadelta"]


class Adadelta(RuleOptimizer):
    """Steps scaled by the ratio of recent steps to recent gradients.

    With gradient g, parameter θ, weight decay λ and learning rate γ:

    - g ← g + λ θ
    - v ← ρ v + (1 − ρ) g²
    - Δ = g √(u + ε) / √(v + ε)
    - u ← ρ u + (1 − ρ) Δ²
    - θ ← θ − γ Δ

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adadelta.html; Zeiler,
    *ADADELTA: An Adaptive Learning Rate Method* (2012).

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: The factor of the step.
        rho: Decay rate of the two running averages.
        eps: Added under the roots.
        weight_decay: L2 penalty.
        foreach: Accepted; all parameters are always updated in one program.
        capturable: Like ``foreach``.
        maximize: Maximize the objective instead of minimizing it.
        differentiable: Record the step on the tape.

    Raises:
        ValueError: A number is out of its range.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "rho", "eps", "weight_decay")
    switches: ClassVar[tuple[str, ...]] = ("weight_decay",)

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        one_element(lr=lr)
        at_least_zero(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"invalid rho value: it must be between 0 and 1, got {rho}")
        defaults = {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """The number of steps, and the running averages."""
        return {"step": scalar(), "square_avg": like(param), "acc_delta": like(param)}

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter."""
        rho, eps = hyper["rho"], hyper["eps"]
        if hyper["weight_decay"] is not None:
            grad = grad + hyper["weight_decay"] * param
        square = (1 - rho) * grad * grad + rho * state["square_avg"]
        update = jnp.sqrt(state["acc_delta"] + eps) / jnp.sqrt(square + eps) * grad
        moved = (1 - rho) * update * update + rho * state["acc_delta"]
        return param - hyper["lr"] * update, {
            "step": state["step"] + 1, "square_avg": square, "acc_delta": moved,
        }  # fmt: skip
