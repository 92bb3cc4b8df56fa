"""Rules for reductions, running sums, and sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flambeau.core.interpreter.equation import Computation, Equation, Rule, Unknown
from flambeau.core.types import Function


def reduction(function: np.ufunc, kinds: str = "biuf") -> Rule:
    """The rule of a reduction by a function of NumPy for two arrays."""

    def rule(equation: Equation) -> Computation:
        if equation.kind not in kinds or equation.params.get("out_sharding") is not None:
            raise Unknown(f"{equation.name} of {equation.inputs[0].dtype}")
        axes, dtype = tuple(equation.params["axes"]), equation.dtype
        first = _first_of(function, dtype)
        if first is None:
            return lambda x: function.reduce(x, axes, dtype=dtype)
        return lambda x: function.reduce(x, axes, dtype=dtype, initial=first)

    return rule


def _first_of(function: np.ufunc, dtype: np.dtype) -> np.generic | float | None:
    """The result of a reduction of no elements, where NumPy does not know it."""
    if function not in (np.maximum, np.minimum):
        return None
    if dtype.kind == "b":
        return function is np.minimum
    if dtype.kind == "f":
        return -np.inf if function is np.maximum else np.inf
    limits = np.iinfo(dtype)
    return limits.min if function is np.maximum else limits.max


def of_extremum(function: Function) -> Rule:
    """The rule of the position of the first extremum, or of the first NaN."""

    def rule(equation: Equation) -> Computation:
        (axis,) = equation.params["axes"]
        dtype = equation.dtype
        return lambda x: function(x, axis).astype(dtype)

    return rule


def running(function: np.ufunc, kinds: str = "iuf") -> Rule:
    """The rule of a running reduction by a function of NumPy for two arrays."""

    def rule(equation: Equation) -> Computation:
        if equation.kind not in kinds:
            raise Unknown(f"{equation.name} of {equation.inputs[0].dtype}")
        axis, dtype = equation.params["axis"], equation.dtype
        if equation.params["reverse"]:
            return lambda x: np.flip(function.accumulate(np.flip(x, axis), axis, dtype), axis)
        return lambda x: function.accumulate(x, axis, dtype)

    return rule


def sorting(equation: Equation) -> Computation:
    params = equation.params
    axis, keys, several = params["dimension"], params["num_keys"], len(equation.inputs) > 1
    if several and not params["is_stable"]:
        # Which of equal elements comes first is XLA's choice.
        raise Unknown("sort that is not stable")

    def found(*arrays: np.ndarray) -> Sequence[np.ndarray]:
        if keys == 1:
            order = np.argsort(arrays[0], axis, kind="stable")
        else:
            order = np.lexsort(arrays[keys - 1 :: -1], axis)
        return [np.take_along_axis(each, order, axis) for each in arrays]

    return found


def several(equation: Equation) -> Computation:
    """Of arrays side by side, each by a function that NumPy has for two arrays."""
    axes = tuple(equation.params["dimensions"])
    functions = _functions_of(equation.params["jaxpr"], len(equation.outputs))

    def found(*given: np.ndarray) -> list[np.ndarray]:
        arrays, first = given[: len(functions)], given[len(functions) :]
        return [
            function(function.reduce(array, axes, dtype=array.dtype), start)
            if array.size
            else np.broadcast_to(start, kind.shape)
            for function, array, start, kind in zip(
                functions, arrays, first, equation.outputs, strict=True
            )
        ]

    return found


def _functions_of(body: Any, count: int) -> list[np.ufunc]:
    """The functions of a plan, which applies each to an array before and one after."""
    equations, _, _, taken, given, _ = body.parts
    named = {outputs[0]: (each.name, inputs) for each, inputs, outputs in equations}
    found = []
    for place, result in enumerate(given):
        name, operands = named.get(result, ("", ()))
        if name == "sub" and named.get(operands[1], ("",))[0] == "neg":
            # What `ops/cpu_forms/fused_sum.py` writes for a sum.
            name, operands = "add", (operands[0], *named[operands[1]][1])
        if name not in _PAIRS or operands != (taken[place], taken[count + place]):
            raise Unknown("reduce")
        found.append(_PAIRS[name])
    return found


_PAIRS: dict[str, np.ufunc] = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or,
}  # fmt: skip


#: Rules by primitives.
RULES: dict[str, Rule] = {
    "argmax": of_extremum(np.argmax),
    "argmin": of_extremum(np.argmin),
    "cummax": running(np.maximum),
    "cummin": running(np.minimum),
    "cumprod": running(np.multiply),
    "cumsum": running(np.add),
    "reduce": several,
    "reduce_and": reduction(np.bitwise_and),
    "reduce_max": reduction(np.maximum),
    "reduce_min": reduction(np.minimum),
    "reduce_or": reduction(np.bitwise_or),
    "reduce_prod": reduction(np.multiply, "iuf"),
    "reduce_sum": reduction(np.add, "iuf"),
    "reduce_xor": reduction(np.bitwise_xor),
    "sort": sorting,
}
