"""NAdam."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.optim.checks import at_least_zero, check_betas, one_element
from flambeau.optim.optimizer import Parameters
from flambeau.optim.precision import number
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like, scalar

__all__ = ["NAdam"]


class NAdam(RuleOptimizer):
    """Adam with Nesterov's momentum.

    With gradient g, parameter θ, weight decay λ, momentum decay ψ, learning rate γ and t counting
    the steps:

    - g ← g + λ θ, or θ ← θ − γ λ θ with ``decoupled_weight_decay``
    - μₜ = β₁ (1 − 0.96^(t ψ) / 2), and πₜ = πₜ₋₁ μₜ
    - m ← β₁ m + (1 − β₁) g, and v ← β₂ v + (1 − β₂) g²
    - θ ← θ − γ ((1 − μₜ) g / (1 − πₜ) + μₜ₊₁ m / (1 − πₜ μₜ₊₁)) / (√(v / (1 − β₂ᵗ)) + ε)

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.NAdam.html; Dozat,
    *Incorporating Nesterov Momentum into Adam* (2016).

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: Learning rate.
        betas: Decay rates of the two running averages.
        eps: Added to the denominator.
        weight_decay: L2 penalty.
        momentum_decay: The rate at which the momentum approaches its final value.
        decoupled_weight_decay: Decay the weights themselves, as `AdamW` does.
        foreach: Accepted; all parameters are always updated in one program.
        maximize: Maximize the objective instead of minimizing it.
        capturable: Like ``foreach``.
        differentiable: Record the step on the tape.

    Raises:
        ValueError: A number is out of its range.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "betas", "eps", "weight_decay", "momentum_decay")
    switches: ClassVar[tuple[str, ...]] = ("weight_decay",)
    flags: ClassVar[tuple[str, ...]] = ("decoupled_weight_decay",)

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        one_element(lr=lr)
        at_least_zero(lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        check_betas(betas)
        defaults = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable,
        }  # fmt: skip
        super().__init__(params, defaults)

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """The number of steps, the product of momenta, and the running averages."""
        return {
            "step": scalar(), "mu_product": scalar(1.0),
            "exp_avg": like(param), "exp_avg_sq": like(param),
        }  # fmt: skip

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter.

        optax's `nadam` has the same momentum at every step.
        """
        lr, (beta1, beta2), decay = hyper["lr"], hyper["betas"], hyper["weight_decay"]
        step = state["step"] + 1
        count = number(step)
        if decay is not None:
            if flags["decoupled_weight_decay"]:
                param = (1 - lr * decay) * param
            else:
                grad = grad + decay * param
        momentum = beta1 * (1 - 0.5 * 0.96 ** (count * hyper["momentum_decay"]))
        next_momentum = beta1 * (1 - 0.5 * 0.96 ** ((count + 1) * hyper["momentum_decay"]))
        product = momentum * state["mu_product"]
        so_far = number(product)
        average = beta1 * state["exp_avg"] + (1 - beta1) * grad
        square = beta2 * state["exp_avg_sq"] + (1 - beta2) * grad * grad
        update = (1 - momentum) / (1 - so_far) * grad
        update += next_momentum / (1 - so_far * next_momentum) * average
        size = jnp.sqrt(square / (1 - beta2**count)) + hyper["eps"]
        return param - lr * update / size, {
            "step": step, "mu_product": product, "exp_avg": average, "exp_avg_sq": square,
        }  # fmt: skip
