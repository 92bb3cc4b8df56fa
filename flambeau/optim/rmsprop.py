"""RMSprop."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.optim.checks import at_least_zero, one_element
from flambeau.optim.optimizer import Parameters
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like, scalar

__all__ = ["RMSprop"]


class RMSprop(RuleOptimizer):
    """Steps scaled by a running average of the square of the gradient.

    With gradient g, parameter θ, weight decay λ, momentum μ and learning rate γ:

    - g ← g + λ θ
    - v ← α v + (1 − α) g²
    - s = √v, or √(v − m²) with m ← α m + (1 − α) g if ``centered``
    - b ← μ b + g / (s + ε)
    - θ ← θ − γ b

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.RMSprop.html; Hinton's
    lecture notes; the centered form is Graves, *Generating Sequences With Recurrent Neural
    Networks* (2013).

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: Learning rate.
        alpha: Decay rate of the running averages.
        eps: Added to the denominator.
        weight_decay: L2 penalty.
        momentum: Momentum factor.
        centered: Scale by the standard deviation of the gradient.
        capturable: Accepted; all parameters are always updated in one program.
        foreach: Like ``capturable``.
        maximize: Maximize the objective instead of minimizing it.
        differentiable: Record the step on the tape.

    Raises:
        ValueError: A number is negative.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "momentum", "alpha", "eps", "weight_decay")
    switches: ClassVar[tuple[str, ...]] = ("momentum", "weight_decay")
    flags: ClassVar[tuple[str, ...]] = ("centered",)

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        one_element(lr=lr)
        at_least_zero(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """The number of steps, the average square, and the state of momentum and centering."""
        found = {"step": scalar(), "square_avg": like(param)}
        if group["momentum"] > 0:
            found["momentum_buffer"] = like(param)
        if group["centered"]:
            found["grad_avg"] = like(param)
        return found

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter."""
        alpha, momentum = hyper["alpha"], hyper["momentum"]
        if hyper["weight_decay"] is not None:
            grad = grad + hyper["weight_decay"] * param
        square = (1 - alpha) * grad * grad + alpha * state["square_avg"]
        new = {"step": state["step"] + 1, "square_avg": square}
        if flags["centered"]:
            average = new["grad_avg"] = (1 - alpha) * grad + alpha * state["grad_avg"]
            square = square - average * average
        update = grad / (jnp.sqrt(square) + hyper["eps"])
        if momentum is not None:
            update = new["momentum_buffer"] = update + momentum * state["momentum_buffer"]
        return param - hyper["lr"] * update, new
