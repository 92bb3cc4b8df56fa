"""RAdam."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.optim.checks import at_least_zero, check_betas, one_element
from flambeau.optim.optimizer import Parameters
from flambeau.optim.precision import number
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like, scalar

__all__ = ["RAdam"]


class RAdam(RuleOptimizer):
    """Adam that uses its average square only after enough steps.

    With gradient g, parameter θ, weight decay λ, learning rate γ and t counting the steps:

    - g ← g + λ θ, or θ ← θ − γ λ θ with ``decoupled_weight_decay``
    - m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g², and m̂ = m / (1 − β₁ᵗ)
    - ρ = ρ_∞ − 2 t β₂ᵗ / (1 − β₂ᵗ) with ρ_∞ = 2 / (1 − β₂) − 1
    - θ ← θ − γ m̂ while ρ ≤ 5; then θ ← θ − γ m̂ r √(1 − β₂ᵗ) / (√v + ε), with
      r = √((ρ − 4)(ρ − 2) ρ_∞ / ((ρ_∞ − 4)(ρ_∞ − 2) ρ))

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.RAdam.html; Liu et al., *On
    the Variance of the Adaptive Learning Rate and Beyond* (2019).

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: Learning rate.
        betas: Decay rates of the two running averages.
        eps: Added to the denominator.
        weight_decay: L2 penalty.
        decoupled_weight_decay: Decay the weights themselves, as `AdamW` does.
        foreach: Accepted; all parameters are always updated in one program.
        maximize: Maximize the objective instead of minimizing it.
        capturable: Like ``foreach``.
        differentiable: Record the step on the tape.

    Raises:
        ValueError: A number is out of its range.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "betas", "eps", "weight_decay")
    switches: ClassVar[tuple[str, ...]] = ("weight_decay",)
    flags: ClassVar[tuple[str, ...]] = ("decoupled_weight_decay",)

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        one_element(lr=lr)
        at_least_zero(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """The number of steps, and the running averages."""
        return {"step": scalar(), "exp_avg": like(param), "exp_avg_sq": like(param)}

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter.

        optax's `scale_by_radam` adds ε after the bias correction, and its derivative is NaN in the
        first steps, before the average is used.
        """
        lr, (beta1, beta2), decay = hyper["lr"], hyper["betas"], hyper["weight_decay"]
        step = state["step"] + 1
        count = number(step)
        if decay is not None:
            if flags["decoupled_weight_decay"]:
                param = (1 - lr * decay) * param
            else:
                grad = grad + decay * param
        average = beta1 * state["exp_avg"] + (1 - beta1) * grad
        square = beta2 * state["exp_avg_sq"] + (1 - beta2) * grad * grad
        correction = 1 - beta2**count
        final = 2 / (1 - beta2) - 1
        length = final - 2 * count * beta2**count / correction
        trusted = length > 5.0
        # If it is not used, 6 keeps the root real.
        length = jnp.where(trusted, length, 6.0)
        rectified = jnp.sqrt(
            (length - 4) * (length - 2) * final / ((final - 4) * (final - 2) * length)
        )
        plain = lr / (1 - beta1**count) * average
        adaptive = rectified * jnp.sqrt(correction) / (jnp.sqrt(square) + hyper["eps"])
        new = {"step": step, "exp_avg": average, "exp_avg_sq": square}
        return param - jnp.where(trusted, plain * adaptive, plain), new
