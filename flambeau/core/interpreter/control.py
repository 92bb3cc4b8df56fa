"""Rules for calls, branches and loops, whose bodies are plans of their own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flambeau.core.interpreter.equation import Array, Computation, Equation
from flambeau.core.interpreter.plan import Plan
from flambeau.core.interpreter.table import RULES
from flambeau.core.interpreter.work import STEP


class _Call:
    """A function that is called many times."""

    def __init__(self, equation: Equation) -> None:
        self.plan: Plan = equation.params["jaxpr"]
        self.steps: int = len(self.plan)
        self.work: float = STEP + self.plan.work
        self.compiling: Callable[[bool], float] = self.plan.compiling

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        return self.plan(arrays)


class _Branches:
    """One of several functions, by a number."""

    def __init__(self, equation: Equation) -> None:
        self.plans: tuple[Plan, ...] = equation.params["branches"]
        self.work: float = STEP + max(each.work for each in self.plans)

    def compiling(self, native: bool) -> float:
        return sum(each.compiling(native) for each in self.plans)

    def __call__(self, which: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
        return self.plans[min(max(int(which), 0), len(self.plans) - 1)](arrays)


class _Loop:
    """A function over the rows of arrays, with values that it hands on from row to row."""

    def __init__(self, equation: Equation) -> None:
        params = equation.params
        self.plan: Plan = params["jaxpr"]
        self.length: int = params["length"]
        self.backwards: bool = params["reverse"]
        # What is not the same for all rows has one dimension more outside of the function.
        inner, rows = self.plan.inputs, 0
        while rows < len(inner) and equation.inputs[~rows].ndim > inner[~rows].ndim:
            rows += 1
        inner = self.plan.avals
        self.carried: int = sum(
            o.ndim == i.ndim for o, i in zip(equation.outputs, inner, strict=True)
        )
        self.fixed: int = len(equation.inputs) - rows - self.carried
        self.rows: list[Array] = equation.outputs[self.carried :]
        self.work: float = STEP + self.length * (STEP + self.plan.work)
        self.compiling: Callable[[bool], float] = self.plan.compiling

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        fixed, begin = arrays[: self.fixed], self.fixed + self.carried
        carry, rows = list(arrays[self.fixed : begin]), arrays[begin:]
        results = [np.empty(each.shape, each.dtype) for each in self.rows]
        order = range(self.length)
        for i in reversed(order) if self.backwards else order:
            found = self.plan((*fixed, *carry, *[each[i] for each in rows]))
            carry = found[: self.carried]
            for result, row in zip(results, found[self.carried :], strict=True):
                result[i] = row
        return [*carry, *results]


def _call(equation: Equation) -> Computation:
    return _Call(equation)


def _branches(equation: Equation) -> Computation:
    return _Branches(equation)


def _loop(equation: Equation) -> Computation:
    return _Loop(equation)


RULES.update(call=_call, cond=_branches, scan=_loop)
