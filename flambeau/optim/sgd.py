"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.ops.indices.placement import inside
from flambeau.optim.checks import at_least_zero, check_implementation, one_element
from flambeau.optim.fused import Fused, by_kernel
from flambeau.optim.optimizer import Parameters
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like

__all__ = ["SGD"]


def _kernel(hyper: Named, flags: Named) -> Fused | None:
    if hyper["dampening"] is not None:
        return None
    has_buffers = hyper["momentum"] is not None

    def numbers(hyper: Named) -> tuple[Any, ...]:
        return hyper["lr"], hyper["momentum"], hyper["weight_decay"]

    states = ("momentum_buffer",) if has_buffers else ()
    nesterov = bool(flags["nesterov"])
    return Fused("sgd", states, numbers, {"has_buffers": has_buffers, "nesterov": nesterov})


class SGD(RuleOptimizer):
    """Stochastic gradient descent, optionally with momentum.

    With gradient g, parameter θ, weight decay λ, momentum μ, dampening τ and learning rate γ:

    - g ← g + λ θ
    - b ← μ b + (1 − τ) g; at a parameter's first step b ← g
    - g ← g + μ b with Nesterov's momentum, else g ← b
    - θ ← θ − γ g

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.SGD.html; Sutskever et al.,
    *On the importance of initialization and momentum in deep learning* (2013).

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: Learning rate.
        momentum: Momentum factor.
        dampening: Dampening of the momentum.
        weight_decay: L2 penalty.
        nesterov: Use Nesterov's momentum.
        maximize: Maximize the objective instead of minimizing it.
        foreach: Accepted; all parameters are always updated in one program.
        differentiable: Record the step on the tape.
        fused: Like ``foreach``.

    Raises:
        ValueError: A number is negative, or ``nesterov`` without momentum or with dampening.

    >>> import flambeau
    >>> weight = flambeau.ones(2, requires_grad=True)
    >>> optimizer = flambeau.optim.SGD([weight], lr=0.5)
    >>> weight.sum().backward()
    >>> optimizer.step()
    >>> weight
    tensor([0.5000, 0.5000], requires_grad=True)
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "momentum", "dampening", "weight_decay")
    switches: ClassVar[tuple[str, ...]] = ("momentum", "dampening", "weight_decay")
    flags: ClassVar[tuple[str, ...]] = ("nesterov",)

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        one_element(lr=lr)
        at_least_zero(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError(
                "nesterov=True needs a momentum above zero and no dampening, "
                f"got momentum={momentum}, dampening={dampening}"
            )
        check_implementation(foreach, fused, differentiable)
        defaults = {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused,
        }  # fmt: skip
        super().__init__(params, defaults)

    @classmethod
    def sparse_rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step that changes only some rows, unless momentum or weight decay changes all."""
        rows = inside(grad.rows, param.shape[0])
        if hyper["momentum"] is None and hyper["weight_decay"] is None:
            return param.at[rows].add(-hyper["lr"] * grad.values, mode="drop"), {}
        whole = jnp.zeros_like(param).at[rows].add(grad.values, mode="drop")
        return cls.rule(param, whole, state, hyper, flags)

    def first_step_differs(self, group: Named) -> bool:
        """True with dampening, which does not apply to the first gradient."""
        return isinstance(group["dampening"], Tensor) or group["dampening"] != 0

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """A momentum buffer, if there is momentum."""
        momentum = group["momentum"]
        if not isinstance(momentum, Tensor) and momentum == 0:
            return {}
        return {"momentum_buffer": like(param)}

    @classmethod
    @by_kernel(_kernel)
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter."""
        momentum, dampening = hyper["momentum"], hyper["dampening"]
        if hyper["weight_decay"] is not None:
            grad = grad + hyper["weight_decay"] * param
        if momentum is None:
            return param - hyper["lr"] * grad, {}
        if dampening is not None and not flags["first"]:
            grad = (1 - dampening) * grad
        buffer = grad + momentum * state["momentum_buffer"]
        update = grad + momentum * buffer if flags["nesterov"] else buffer
        return param - hyper["lr"] * update, {"momentum_buffer": buffer}
