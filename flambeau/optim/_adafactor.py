"""Adafactor."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.optim.checks import at_least_zero, check_pair, one_element
from flambeau.optim.optimizer import Parameters
from flambeau.optim.precision import number
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like, scalar

__all__ = ["Adafactor"]


class Adafactor(RuleOptimizer):
    """Adam's scaling with little memory: a matrix of squares is stored as row and column means.

    With gradient G (n × m), parameter θ, weight decay λ, learning rate γ and t counting the steps:

    - w = t^τ with τ = ``beta2_decay``, and α = max(ε₂, RMS(θ)) · min(γ, 1/√t)
    - θ ← θ − γ λ θ
    - R ← R + w (row means of G² − R), and C ← C + w (column means of G² − C)
    - V = R C / max(mean of R, ε₁); for a vector, V ← V + w (G² − V)
    - U = G / √max(V, ε₁²)
    - θ ← θ − α U / max(1, RMS(U) / d)

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.Adafactor.html; Shazeer and
    Stern, *Adafactor: Adaptive Learning Rates with Sublinear Memory Cost* (2018).

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: The largest relative step.
        beta2_decay: The exponent τ, at most 0.
        eps: ε₁, by default the dtype's epsilon, and ε₂.
        d: The maximum root mean square of an update.
        weight_decay: The coefficient of the decoupled weight decay.
        foreach: Accepted; all parameters are always updated in one program.
        maximize: Maximize the objective instead of minimizing it.

    Raises:
        ValueError: A number is out of its range.
        RuntimeError: A parameter is complex.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "beta2_decay", "eps", "d", "weight_decay")
    switches: ClassVar[tuple[str, ...]] = ("weight_decay",)

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        one_element(lr=lr)
        check_pair("eps", eps)
        at_least_zero(lr=lr, weight_decay=weight_decay, epsilon2=eps[1])
        at_least_zero(epsilon1=0.0 if eps[0] is None else eps[0])
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay must not be above 0, got {beta2_decay}")
        if not d >= 1.0:
            raise ValueError(f"the clipping threshold d must be at least 1, got {d}")
        defaults = {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize,
        }  # fmt: skip
        super().__init__(params, defaults)

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """The number of steps, and the mean squares of rows and columns, or of all elements."""
        if param.is_complex():
            raise RuntimeError(
                f"Adafactor does not support complex parameters, got one of {param.dtype}"
            )
        shape, dtype = tuple(param.shape), param.dtype.numpy
        if len(shape) < 2:
            return {"step": scalar(), "variance": like(param)}
        return {
            "step": scalar(),
            "row_var": Entry((*shape[:-1], 1), dtype),
            "col_var": Entry((*shape[:-2], 1, shape[-1]), dtype),
        }

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one parameter.

        optax's `scale_by_factored_rms` adds ε₁ to the squares, where PyTorch bounds their mean.
        """
        lr, (eps1, eps2) = hyper["lr"], hyper["eps"]
        if eps1 is None:
            eps1 = float(jnp.finfo(flags["dtype"]).eps)
        step = state["step"] + 1
        count = number(step)
        weight = count ** hyper["beta2_decay"]
        rate = jnp.maximum(eps2, _root_mean_square(param)) * jnp.minimum(lr, 1 / jnp.sqrt(count))
        if hyper["weight_decay"] is not None:
            param = (1 - lr * hyper["weight_decay"]) * param
        new = {"step": step}
        if grad.ndim > 1:
            rows = state["row_var"] + weight * (_mean_square(grad, -1) - state["row_var"])
            columns = state["col_var"] + weight * (_mean_square(grad, -2) - state["col_var"])
            new |= {"row_var": rows, "col_var": columns}
            variance = rows * columns / jnp.maximum(jnp.mean(rows, axis=-2, keepdims=True), eps1)
        else:
            variance = state["variance"] + weight * (grad * grad - state["variance"])
            new["variance"] = variance
        update = grad / jnp.sqrt(jnp.maximum(variance, eps1 * eps1))
        clip = jnp.maximum(1.0, _root_mean_square(update) / hyper["d"])
        return param - rate / clip * update, new


def _mean_square(array: Any, axis: int) -> Any:
    return jnp.mean(array * array, axis=axis, keepdims=True)


def _root_mean_square(array: Any) -> Any:
    return number(jnp.sqrt(jnp.mean(array * array)))
