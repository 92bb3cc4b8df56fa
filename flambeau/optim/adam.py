"""Adam."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.optim.checks import (
    at_least_zero,
    check_adam_betas,
    check_implementation,
    check_tensor_lr,
)
from flambeau.optim.fused import Fused, by_kernel
from flambeau.optim.optimizer import Parameters
from flambeau.optim.precision import number
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like, scalar

__all__ = ["Adam"]


def _kernel(hyper: Named, flags: Named) -> Fused | None:
    if flags["amsgrad"]:
        return None

    def numbers(hyper: Named) -> tuple[Any, ...]:
        return hyper["lr"], *hyper["betas"], hyper["eps"], hyper["weight_decay"]

    decoupled = bool(flags["decoupled_weight_decay"])
    return Fused("adam", ("step", "exp_avg", "exp_avg_sq"), numbers, {"decoupled": decoupled})


class Adam(RuleOptimizer):
    """Adam: steps scaled by running averages of the gradient and of its square.

    With gradient g, parameter θ, weight decay λ, learning rate γ and t counting the steps:

    - g ← g + λ θ, or θ ← θ − γ λ θ with ``decoupled_weight_decay``
    - m ← β₁ m + (1 − β₁) g
    - v ← β₂ v + (1 − β₂) g²
    - θ ← θ − γ (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)

    With ``amsgrad`` the last line uses the maximum of all v so far.

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
        maximize: Maximize the objective instead of minimizing it.
        capturable: Like ``foreach``.
        differentiable: Record the step on the tape.
        fused: Like ``foreach``.
        decoupled_weight_decay: Decay the weights themselves, as `AdamW` does.

    Raises:
        ValueError: A number is out of its range.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "betas", "eps", "weight_decay")
    switches: ClassVar[tuple[str, ...]] = ("weight_decay",)
    flags: ClassVar[tuple[str, ...]] = ("amsgrad", "decoupled_weight_decay")

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

    @classmethod
    @by_kernel(_kernel)
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter."""
        (beta1, beta2), decay = hyper["betas"], hyper["weight_decay"]
        decoupled = flags["decoupled_weight_decay"]
        if decay is not None and not decoupled:
            grad = grad + decay * param
        step = state["step"] + 1
        average = (1 - beta1) * grad + beta1 * state["exp_avg"]
        square = (1 - beta2) * grad * grad + beta2 * state["exp_avg_sq"]
        new = {"step": step, "exp_avg": average, "exp_avg_sq": square}
        largest = square
        if flags["amsgrad"]:
            # The maximum before the bias correction, as in PyTorch.
            largest = new["max_exp_avg_sq"] = jnp.maximum(state["max_exp_avg_sq"], square)
        count = number(step)
        size = jnp.sqrt(largest / (1 - beta2**count)) + hyper["eps"]
        update = average / (1 - beta1**count) / size
        if decay is not None and decoupled:
            update = update + decay * param
        return param - hyper["lr"] * update, new
