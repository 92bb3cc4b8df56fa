"""Muon."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.optim.checks import at_least_zero, check_initialized, one_element
from flambeau.optim.optimizer import Parameters
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like

__all__ = ["Muon"]

_RATES = (None, "original", "match_rms_adamw")


class Muon(RuleOptimizer):
    """Momentum with nearly orthogonal updates; only for matrices of hidden layers.

    With gradient G (n × m), parameter θ, weight decay λ, momentum μ and learning rate γ:

    - B ← μ B + (1 − μ) G
    - U = μ B + (1 − μ) G with Nesterov's momentum, else B
    - O = U's nearest orthogonal matrix, by a few Newton-Schulz steps in bfloat16:
      X ← a X + (b A + c A²) X with A = X Xᵀ, from X = U / ‖U‖
    - θ ← θ − γ λ θ − γ′ O, where γ′ is γ √max(1, n/m) or 0.2 γ √max(n, m)

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.Muon.html; Jordan et al.,
    *Muon: An Optimizer for Hidden Layers in Neural Networks* (2024).

    Args:
        params: Matrices, pairs of name and matrix, or dictionaries of groups.
        lr: Learning rate.
        weight_decay: The coefficient of the decoupled weight decay.
        momentum: Momentum factor.
        nesterov: Use Nesterov's momentum.
        ns_coefficients: a, b and c of a Newton-Schulz step.
        eps: The smallest norm to divide by.
        ns_steps: The number of Newton-Schulz steps, below 100.
        adjust_lr_fn: How γ′ depends on the shape: ``"original"``, the default, or
            ``"match_rms_adamw"``, which suits learning rates for `AdamW`.

    Raises:
        ValueError: A parameter is not a matrix, or a number is out of its range.
    """

    numbers: ClassVar[tuple[str, ...]] = (
        "lr",
        "weight_decay",
        "momentum",
        "ns_coefficients",
        "eps",
    )
    flags: ClassVar[tuple[str, ...]] = ("nesterov", "ns_steps", "adjust_lr_fn")

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        one_element(lr=lr)
        at_least_zero(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in _RATES:
            raise ValueError(f"adjust_lr_fn must be one of {_RATES}, got {adjust_lr_fn!r}")
        if ns_steps >= 100:
            raise ValueError(f"ns_steps must be below 100, got {ns_steps}")
        if len(ns_coefficients) != 3:
            raise ValueError(f"ns_coefficients must be 3 numbers, got {len(ns_coefficients)}")
        defaults = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        super().__init__(params, defaults)

    def _check_params(self, params: list[Any]) -> None:
        super()._check_params(params)
        check_initialized("Muon", params)
        for param in params:
            if param.ndim != 2:
                raise ValueError(
                    f"Muon only supports 2D parameters, but got one of shape {list(param.shape)}; "
                    "give the others to another optimizer, such as AdamW"
                )
            if param.is_complex():
                raise ValueError(f"Muon does not support complex parameters, got {param.dtype}")

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """The momentum buffer."""
        return {"momentum_buffer": like(param)}

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for one matrix.

        optax's `scale_by_muon` corrects the bias of the momentum, and does the Newton-Schulz steps
        in the precision of the parameter.
        """
        lr, momentum = hyper["lr"], hyper["momentum"]
        buffer = momentum * state["momentum_buffer"] + (1 - momentum) * grad
        update = momentum * buffer + (1 - momentum) * grad if flags["nesterov"] else buffer
        update = _orthogonalized(update, hyper["ns_coefficients"], flags["ns_steps"], hyper["eps"])
        rate = lr * _rate_factor(param.shape, flags["adjust_lr_fn"])
        param = (1 - lr * hyper["weight_decay"]) * param - rate * update
        return param, {"momentum_buffer": buffer}


def _rate_factor(shape: tuple[int, ...], adjust: str | None) -> float:
    rows, columns = shape
    if adjust == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))


def _orthogonalized(matrix: Any, coefficients: Any, steps: int, eps: Any) -> Any:
    """A matrix with the singular vectors of ``matrix`` and singular values near 1, in bfloat16."""
    linear, cubic, quintic = coefficients
    wide = matrix.shape[0] <= matrix.shape[1]
    x = _rounded(matrix if wide else matrix.T)
    norm = _rounded(jnp.linalg.norm(_exact(x)))
    x = _rounded(_exact(x) / jnp.maximum(_exact(norm), eps))
    for _ in range(steps):
        gram = _rounded(_product(x, x.T))
        factor = _rounded(cubic * _exact(gram) + quintic * _product(gram, gram))
        x = _rounded(linear * _exact(x) + _product(factor, x))
    return _exact(x if wide else x.T)


def _rounded(matrix: Any) -> Any:
    return matrix.astype(jnp.bfloat16)


def _exact(matrix: Any) -> Any:
    return matrix.astype(jnp.float32)


def _product(left: Any, right: Any) -> Any:
    return jnp.matmul(left, right, preferred_element_type=jnp.float32)
