"""Adagrad."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.optim.checks import (
    at_least_zero,
    check_implementation,
    check_initialized,
    one_element,
)
from flambeau.optim.optimizer import Parameters
from flambeau.optim.precision import number
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like, scalar

__all__ = ["Adagrad"]


class Adagrad(RuleOptimizer):
    """Steps scaled by the sum of the squares of all gradients so far.

    With gradient g, parameter θ, weight decay λ, learning rate γ, its decay η and t counting the
    steps:

    - g ← g + λ θ
    - s ← s + g²
    - θ ← θ − γ / (1 + (t − 1) η) · g / (√s + ε)

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adagrad.html; Duchi et al.,
    *Adaptive Subgradient Methods for Online Learning and Stochastic Optimization* (2011).

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: Learning rate.
        lr_decay: Decay of the learning rate.
        weight_decay: L2 penalty.
        initial_accumulator_value: The initial value of the sum of squares.
        eps: Added to the denominator.
        foreach: Accepted; all parameters are always updated in one program.
        maximize: Maximize the objective instead of minimizing it.
        differentiable: Record the step on the tape.
        fused: Like ``foreach``.

    Raises:
        ValueError: A number is out of its range.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "lr_decay", "eps", "weight_decay")
    switches: ClassVar[tuple[str, ...]] = ("weight_decay",)

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        one_element(lr=lr)
        at_least_zero(
            lr=lr, lr_decay=lr_decay, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, eps=eps,
        )  # fmt: skip
        check_implementation(foreach, fused, differentiable)
        defaults = {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)
        for group in self.param_groups:
            options = dict(group)
            check_initialized("Adagrad", options["params"])
            for param in options["params"]:
                self._make_state(param, options)

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """The number of steps, and the sum of squares."""
        start = group["initial_accumulator_value"]
        fill = complex(start, start) if param.is_complex() else start
        return {"step": scalar(), "sum": like(param, fill)}

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter.

        optax's `scale_by_rss` adds ε under the root.
        """
        if hyper["weight_decay"] is not None:
            grad = grad + hyper["weight_decay"] * param
        step = state["step"] + 1
        rate = hyper["lr"] / (1 + number(step - 1) * hyper["lr_decay"])
        total = state["sum"] + grad * grad
        param = param - rate * grad / (jnp.sqrt(total) + hyper["eps"])
        return param, {"step": step, "sum": total}
