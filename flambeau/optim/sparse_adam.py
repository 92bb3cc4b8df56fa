"""Adam for sparse gradients."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from flambeau.core.values.tensor import Tensor
from flambeau.ops.indices.placement import inside
from flambeau.optim.checks import check_betas, one_element
from flambeau.optim.optimizer import Parameters
from flambeau.optim.precision import number
from flambeau.optim.rule import Entry, Named, RuleOptimizer, like, scalar

__all__ = ["SparseAdam"]


class SparseAdam(RuleOptimizer):
    """Adam that changes only the rows of a sparse gradient, and their averages.

    With gradient g of a row θ, learning rate γ and t counting the steps:

    - m ← β₁ m + (1 − β₁) g
    - v ← β₂ v + (1 − β₂) g²
    - θ ← θ − γ √(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (√v + ε)

    Formulas: https://docs.pytorch.org/docs/stable/generated/torch.optim.SparseAdam.html.

    Args:
        params: Parameters, pairs of name and parameter, or dictionaries of groups.
        lr: Learning rate.
        betas: Decay rates of the averages.
        eps: Added to the root of the average square.
        maximize: Maximize the objective instead of minimizing it.

    Raises:
        ValueError: A number is out of its range, or a parameter is sparse.

    >>> import flambeau
    >>> table = flambeau.nn.Embedding(4, 2, sparse=True)
    >>> optimizer = flambeau.optim.SparseAdam(table.parameters(), lr=0.1)
    >>> before = table.weight.detach().clone()
    >>> table(flambeau.tensor([1, 3, 1])).sum().backward()
    >>> optimizer.step()
    >>> (table.weight != before).any(1)
    tensor([False,  True, False,  True])
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "betas", "eps")

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        one_element(lr=lr)
        for name, value in (("learning rate", lr), ("epsilon value", eps)):
            if not value > 0:
                raise ValueError(f"Invalid {name}: {value}; it must be above zero")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        if any(each.is_sparse for group in self.param_groups for each in group["params"]):
            raise ValueError(
                "SparseAdam requires dense parameter tensors; only gradients are sparse"
            )

    def entries(self, param: Tensor, group: Named) -> dict[str, Entry]:
        """The number of steps and the running averages."""
        return {"step": scalar(), "exp_avg": like(param), "exp_avg_sq": like(param)}

    @classmethod
    def rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """Raise an error: the gradient is dense."""
        raise RuntimeError(
            "SparseAdam does not support dense gradients, please consider Adam instead; embeddings "
            "give sparse ones with sparse=True"
        )

    @classmethod
    def sparse_rule(
        cls, param: Any, grad: Any, state: Named, hyper: Named, flags: Named
    ) -> tuple[Any, Named]:
        """One step for the rows that have a gradient."""
        beta1, beta2 = hyper["betas"]
        step = state["step"] + 1
        rows, values = _summed(inside(grad.rows, param.shape[0]), grad.values, param.shape[0])
        old, old_square = (
            each.at[rows].get(mode="fill", fill_value=0)
            for each in (state["exp_avg"], state["exp_avg_sq"])
        )
        average = beta1 * old + (1 - beta1) * values
        square = beta2 * old_square + (1 - beta2) * values**2
        size = hyper["lr"] * (1 - beta2 ** number(step)) ** 0.5 / (1 - beta1 ** number(step))
        update = size * average / (jnp.sqrt(square) + hyper["eps"])
        return param.at[rows].add(-update, mode="drop"), {
            "step": step,
            "exp_avg": state["exp_avg"].at[rows].set(average, mode="drop"),
            "exp_avg_sq": state["exp_avg_sq"].at[rows].set(square, mode="drop"),
        }


def _summed(rows: Any, values: Any, count: int) -> tuple[Any, Any]:
    """Each row once, with the sum of its values; unused places hold ``count``."""
    order = jnp.argsort(rows)
    ordered = rows[order]
    is_new = jnp.concatenate([jnp.ones(1, bool), ordered[1:] != ordered[:-1]])[: rows.shape[0]]
    number_of = jnp.cumsum(is_new) - 1
    summed = jax.ops.segment_sum(values[order], number_of, rows.shape[0], indices_are_sorted=True)
    return jnp.full_like(rows, count).at[number_of].set(ordered), summed
