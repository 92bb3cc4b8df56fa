"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.optim.checks import at_least_zero, one_element
from flambeau.optim.optimizer import Parameters
from flambeau.optim.precision import number
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like, scalar

__all__ = ["ASGD"]


class ASGD(RuleOptimizer):
    """Gradient descent with a decreasing rate, which also keeps the average of the parameters.

    With gradient g, parameter θ, weight decay λ, decay κ (``lambd``), learning rate γ and t
    counting the steps:

    - g ← g + λ θ
    - θ ← (1 − κ η) θ − η g
    - ax ← ax + μ (θ − ax)
    - η ← γ / (1 + κ γ t)^α, and μ ← 1 / max(1, t − t₀)

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.ASGD.html; Polyak and
    Juditsky, *Acceleration of Stochastic Approximation by Averaging* (1992).

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: Learning rate.
        lambd: Decay.
        alpha: The exponent of the rate's decay.
        t0: The step at which averaging starts.
        weight_decay: L2 penalty.
        foreach: Accepted; all parameters are always updated in one program.
        maximize: Maximize the objective instead of minimizing it.
        differentiable: Record the step on the tape.
        capturable: Like ``foreach``.

    Raises:
        ValueError: ``lr`` or ``weight_decay`` is negative.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "lambd", "alpha", "t0", "weight_decay")
    switches: ClassVar[tuple[str, ...]] = ("weight_decay",)

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        one_element(lr=lr)
        at_least_zero(lr=lr, weight_decay=weight_decay)
        defaults = {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """The number of steps, the rate, the weight in the average, and the average."""
        return {
            "step": scalar(), "eta": scalar(float(group["lr"])), "mu": scalar(1.0),
            "ax": like(param),
        }  # fmt: skip

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter; optax has no rule for it."""
        if hyper["weight_decay"] is not None:
            grad = grad + hyper["weight_decay"] * param
        lr, lambd, step = hyper["lr"], hyper["lambd"], state["step"] + 1
        eta, mu = number(state["eta"]), number(state["mu"])
        param = (1 - lambd * eta) * param - eta * grad
        average = jnp.where(mu == 1, param, state["ax"] + mu * (param - state["ax"]))
        count = number(step)
        rate = lr / (1 + lambd * lr * count) ** hyper["alpha"]
        weight = 1 / jnp.maximum(1.0, count - hyper["t0"])
        return param, {"step": step, "eta": rate, "mu": weight, "ax": average}
