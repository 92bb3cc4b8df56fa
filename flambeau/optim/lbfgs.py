"""L-BFGS."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.programs.compiled import compiled
from flambeau.core.support.modes import enable_grad, modes
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import TracedValueError
from flambeau.optim.checks import at_least_zero, one_element
from flambeau.optim.line_search import Point, strong_wolfe
from flambeau.optim.optimizer import Optimizer, Parameters

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Quasi-Newton steps with the curvature from the gradients of recent steps.

    One `step` runs up to ``max_iter`` iterations, each with at least one call of the closure. All
    parameters form one group and one vector. With the gradient g, and the changes s of the
    parameters and y of the gradient in the last ``history_size`` iterations, the direction is −H g,
    where H approximates the inverse Hessian by the two-loop recursion.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.optim.LBFGS.html; Nocedal and
    Wright, *Numerical Optimization* (2006), algorithm 7.4; as in Schmidt's ``minFunc``.

    Args:
        params: Parameters, or pairs of name and parameter.
        lr: Learning rate.
        max_iter: Iterations in one step.
        max_eval: Calls of the closure in one step, by default ``max_iter * 5 // 4``.
        tolerance_grad: Stop if no component of the gradient is larger.
        tolerance_change: Stop if loss and parameters change by less.
        history_size: The number of changes to keep.
        line_search_fn: ``"strong_wolfe"``, or ``None`` for steps of a fixed length.

    Raises:
        ValueError: ``lr`` is negative, ``history_size`` not positive, or there are several groups.
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        one_element(lr=lr)
        at_least_zero(lr=lr)
        if not isinstance(history_size, int) or history_size <= 0:
            raise ValueError(f"history_size must be a positive int, got {history_size!r}")
        defaults = {
            "lr": lr, "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Set the parameters; only one group is allowed.

        Raises:
            ValueError: There is a group already.
        """
        if self.param_groups:
            raise ValueError("LBFGS has one parameter group: its options hold for all parameters")
        super().add_param_group(param_group)

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Run up to ``max_iter`` iterations.

        Args:
            closure: Recomputes the loss, with gradients, and returns it.

        Returns:
            The loss before the first iteration.

        Raises:
            RuntimeError: The line search is unknown, or this is inside a compiled function.
        """
        if modes.trace is not None:
            raise TracedValueError(
                "LBFGS branches on the value of the loss, so its step() cannot be "
                "compiled; compile the closure instead"
            )
        options = dict(self.param_groups[0])
        if options["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError(
                f"line_search_fn must be None or 'strong_wolfe', got {options['line_search_fn']!r}"
            )
        run = _Run(self._params, closure, options, dict(self.state[self._params[0]]))
        try:
            return run.run()
        finally:
            self.state[self._params[0]] = run.saved()


class _Run:
    """The iterations of one step.

    optax's `lbfgs` scales the first step by another norm, and runs the line search inside a
    program, which cannot call a closure.
    """

    def __init__(
        self,
        params: list[Tensor],
        closure: Callable[[], Any],
        options: dict[str, Any],
        state: dict[str, Any],
    ) -> None:
        self.params, self.closure, self.options = params, closure, options
        self.lr = float(options["lr"])
        self.total_evaluations = state.get("func_evals", 0)
        self.total_iterations = state.get("n_iter", 0)
        self.direction = _array(state.get("d"))
        self.length = _number(state.get("t"))
        # The changes of the gradient, of the parameters, and the inverses of their products.
        self.history = [
            [_array(each) for each in state.get(name) or ()] for name in ("old_dirs", "old_stps")
        ] + [[_array(each) for each in state.get("ro") or ()]]
        self.scale = _array(state.get("H_diag"))
        self.gradient_before = _array(state.get("prev_flat_grad"))
        self.loss_before = state.get("prev_loss")
        self.evaluations = 0

    def saved(self) -> dict[str, Any]:
        """The state, under PyTorch's names."""
        state = {"func_evals": self.total_evaluations, "n_iter": self.total_iterations}
        if self.direction is None:
            return state
        gradients, steps, inverses = (
            [Tensor._wrap(each) for each in kind] for kind in self.history
        )
        return {
            **state, "d": Tensor._wrap(self.direction), "t": float(self.length),
            "old_dirs": gradients, "old_stps": steps, "ro": inverses,
            "H_diag": Tensor._wrap(self.scale) if isinstance(self.scale, jax.Array) else self.scale,
            "prev_flat_grad": Tensor._wrap(self.gradient_before), "prev_loss": self.loss_before,
        }  # fmt: skip

    def run(self) -> Any:
        first_loss = self.evaluate()
        self.loss, self.gradient = float(first_loss), self.flat_gradient()
        if not self.converged():
            for iteration in range(1, math.ceil(self.options["max_iter"]) + 1):
                if not self.iterate(iteration):
                    break
        return first_loss

    def evaluate(self) -> Any:
        with enable_grad():
            loss = self.closure()
        self.evaluations += 1
        self.total_evaluations += 1
        return loss

    def flat_gradient(self) -> Any:
        return _flatten(
            [
                jnp.zeros_like(each._read()) if each.grad is None else each.grad._read()
                for each in self.params
            ]
        )

    def converged(self) -> bool:
        return bool(_largest(self.gradient) <= self.options["tolerance_grad"])

    def iterate(self, iteration: int) -> bool:
        """Run one iteration; return whether to continue."""
        options = self.options
        self.total_iterations += 1
        first = self.total_iterations == 1
        if first:
            self.direction, self.scale = -self.gradient, 1
        else:
            self.remember()
            self.direction = self.newton_direction()
        self.gradient_before, self.loss_before = self.gradient, self.loss
        self.length = self.lr
        if first:
            self.length = min(1.0, 1.0 / _number(_total(self.gradient))) * self.lr
        slope = _number(_dot(self.gradient, self.direction))
        if slope > -options["tolerance_change"]:
            return False
        last = iteration == options["max_iter"]
        if options["line_search_fn"] is not None:
            self.search(slope)
            converged = self.converged()
        else:
            self.move(self.length)
            converged = False
            if not last:
                self.loss, self.gradient = float(self.evaluate()), self.flat_gradient()
                converged = self.converged()
        change = options["tolerance_change"]
        return not (
            last
            or self.evaluations >= options["max_eval"]
            or converged
            or _largest(self.direction * self.length) <= change
            or abs(self.loss - self.loss_before) < change
        )

    def remember(self) -> None:
        """Add the last iteration's changes to the history, if their curvature was positive."""
        gradient_change = self.gradient - self.gradient_before
        change = self.direction * self.length
        product = _dot(gradient_change, change)
        if not _number(product) > 1e-10:
            return
        news = (gradient_change, change, 1.0 / product)
        for kind, new in zip(self.history, news, strict=True):
            if len(kind) == self.options["history_size"]:
                kind.pop(0)
            kind.append(new)
        self.scale = product / _dot(gradient_change, gradient_change)

    def newton_direction(self) -> Any:
        """−H g by the two-loop recursion."""
        past = list(zip(*self.history, strict=True))
        direction, shares = -self.gradient, []
        for gradient_change, change, inverse in reversed(past):
            share, direction = _subtract(direction, gradient_change, change, inverse)
            shares.append(share)
        direction = direction * self.scale
        for gradient_change, change, inverse in past:
            direction = _add_back(direction, gradient_change, change, inverse, shares.pop())
        return direction

    def move(self, length: Any) -> None:
        """Move the parameters along the direction."""
        arrays = _moved([each._read() for each in self.params], self.direction, length)
        for param, array in zip(self.params, arrays, strict=True):
            param._store(array)

    def search(self, slope: Any) -> None:
        """Find a step length, and move by it."""
        start = [each._read() for each in self.params]

        def evaluate(length: Any) -> Point:
            self.move(length)
            loss, gradient = float(self.evaluate()), self.flat_gradient()
            for param, array in zip(self.params, start, strict=True):
                param._store(array)
            return Point(length, loss, gradient, _number(_dot(gradient, self.direction)))

        before = Point(0, self.loss, self.gradient, slope)
        found, _ = strong_wolfe(
            evaluate, before, self.length, _number(_largest(self.direction)),
            self.options["max_eval"] - self.evaluations,
        )  # fmt: skip
        self.length, self.loss, self.gradient = found.step, found.loss, found.gradient
        self.move(self.length)


def _array(value: Any) -> Any:
    return value._read() if isinstance(value, Tensor) else value


def _number(value: Any) -> Any:
    """A 0-d tensor or array as a NumPy scalar, which keeps its precision among Python floats."""
    value = _array(value)
    return np.asarray(value)[()] if hasattr(value, "dtype") else value


@compiled
def _flatten(arrays: list[Any]) -> Any:
    return jnp.concatenate([_as_real(each).ravel() for each in arrays])


def _as_real(array: Any) -> Any:
    return jnp.stack([array.real, array.imag], -1) if jnp.iscomplexobj(array) else array


@compiled
def _moved(params: list[Any], direction: Any, length: Any) -> list[Any]:
    moved, start = [], 0
    for param in params:
        parts = _as_real(param)
        step = direction[start : start + parts.size].reshape(parts.shape)
        parts = (parts + length * step).astype(parts.dtype)
        start += parts.size
        is_complex = jnp.iscomplexobj(param)
        moved.append(jax.lax.complex(parts[..., 0], parts[..., 1]) if is_complex else parts)
    return moved


@compiled
def _dot(one: Any, other: Any) -> Any:
    return jnp.vdot(one, other)


@compiled
def _largest(vector: Any) -> Any:
    return jnp.max(jnp.abs(vector))


@compiled
def _total(vector: Any) -> Any:
    return jnp.sum(jnp.abs(vector))


@compiled
def _subtract(direction: Any, gradient_change: Any, change: Any, inverse: Any) -> Any:
    share = jnp.vdot(change, direction) * inverse
    return share, direction - share * gradient_change


@compiled
def _add_back(direction: Any, gradient_change: Any, change: Any, inverse: Any, share: Any) -> Any:
    return direction + change * (share - jnp.vdot(gradient_change, direction) * inverse)
