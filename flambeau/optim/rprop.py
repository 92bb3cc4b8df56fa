"""Resilient backpropagation."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.optim.checks import at_least_zero, check_pair, one_element
from flambeau.optim.optimizer import Parameters
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like, scalar

__all__ = ["Rprop"]


class Rprop(RuleOptimizer):
    """A step size for each element, which grows while its gradient keeps its sign.

    With gradient g, the previous gradient g′, step size s and parameter θ, for each element:

    - g g′ > 0: s ← min(η⁺ s, s_max)
    - g g′ < 0: s ← max(η⁻ s, s_min), and g ← 0
    - θ ← θ − sign(g) s

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.Rprop.html; Riedmiller and
    Braun, *A Direct Adaptive Method for Faster Backpropagation Learning* (1993).

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: The first step size.
        etas: Factors by which a step size shrinks and grows.
        step_sizes: The smallest and the largest step size.
        capturable: Accepted; all parameters are always updated in one program.
        foreach: Like ``capturable``.
        maximize: Maximize the objective instead of minimizing it.
        differentiable: Record the step on the tape.

    Raises:
        ValueError: ``lr`` is negative, or not 0 < η⁻ < 1 < η⁺.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "etas", "step_sizes")

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        one_element(lr=lr)
        at_least_zero(lr=lr)
        check_pair("etas", etas)
        check_pair("step_sizes", step_sizes)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(
                f"invalid eta values: 0 < etas[0] < 1 < etas[1] must hold, got {etas[0]}, {etas[1]}"
            )
        defaults = {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """The number of steps, the previous gradient, and the step sizes."""
        lr = float(group["lr"])
        fill = complex(lr, lr) if param.is_complex() else lr
        return {"step": scalar(), "prev": like(param), "step_size": like(param, fill)}

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter.

        optax's `scale_by_rprop` uses the step size of the previous step.
        """
        (shrink, grow), (smallest, largest) = hyper["etas"], hyper["step_sizes"]
        agreement = grad * state["prev"]
        turned = agreement < 0
        factor = jnp.where(turned, shrink, jnp.where(agreement > 0, grow, 1.0))
        size = jnp.clip(state["step_size"] * factor, smallest, largest)
        grad = jnp.where(turned, 0.0, grad)
        new = {"step": state["step"] + 1, "prev": grad, "step_size": size}
        # Not by jnp.sign: the sign of NaN is NaN, but a NaN gradient must not change the parameter.
        move = jnp.where(grad > 0, size, jnp.where(grad < 0, -size, 0.0))
        return param - move, new
