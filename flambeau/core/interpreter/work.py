"""How long NumPy and XLA's compiler take, as estimated from shapes alone.

The numbers are of one core of 2023, rounded. They decide which gear a call takes, so they are the
same on all machines: two runs of a script give the same bits.
"""

from __future__ import annotations

import math

from flambeau.core.interpreter.equation import Equation

#: Microseconds for a step, whatever its size.
STEP: float = 3.0

# Nanoseconds for an element, of inputs or results, whichever are more.
_ELEMENT = 1.0
_ELEMENTS: dict[str, float] = {
    "broadcast_in_dim": 0.0, "reshape": 0.5, "transpose": 0.0, "squeeze": 0.0,
    "slice": 0.0, "split": 0.0, "rev": 0.0,
    "sort": 100.0, "top_k": 100.0,
    "gather": 15.0, "scatter": 25.0, "scatter-add": 25.0, "scatter_add": 25.0,
    "exp": 4.0, "exp2": 4.0, "log": 4.0, "tanh": 6.0, "logistic": 6.0, "erf": 12.0, "sin": 6.0,
    "cos": 6.0, "pow": 15.0, "atan2": 20.0, "erf_inv": 30.0, "log1p": 10.0, "expm1": 10.0,
    "cumsum": 3.0, "argmax": 2.0, "argmin": 2.0, "select_n": 3.0,
    "reduce_window_max": 4.0, "reduce_window_min": 4.0, "reduce_window_sum": 4.0,
}  # fmt: skip

# Nanoseconds for one product in a sum of products.
_PRODUCT = 0.05


def work_of(equation: Equation) -> float:
    """The microseconds that NumPy takes for an equation."""
    elements = max((each.size for each in (*equation.inputs, *equation.outputs)), default=0)
    nanoseconds = elements * _ELEMENTS.get(equation.name, _ELEMENT)
    params = equation.params
    if equation.name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        terms = math.prod(equation.inputs[0].shape[i] for i in contracted)
        slower = 1 if equation.dtype.kind == "f" else 40
        nanoseconds += equation.outputs[0].size * terms * _PRODUCT * slower
    elif equation.name == "conv_general_dilated":
        shape = equation.inputs[1].shape
        filters = shape[params["dimension_numbers"].rhs_spec[0]]
        terms = math.prod(shape) // max(filters, 1)
        # A product, and a copy of the window for each group of filters.
        groups = params["feature_group_count"]
        copies = equation.outputs[0].size * terms * groups / max(filters, 1)
        nanoseconds += equation.outputs[0].size * terms * _PRODUCT + 3 * copies
    elif equation.name.startswith("reduce_window"):
        window = math.prod(params["window_dimensions"])
        nanoseconds = _ELEMENTS[equation.name] * equation.outputs[0].size * window
    return STEP + nanoseconds / 1000


def compiling(steps: int) -> float:
    """The microseconds that XLA takes to compile a function of so many steps."""
    return 20_000 + 1_000 * steps
