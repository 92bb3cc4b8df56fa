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
_ELEMENT = 0.5
_ELEMENTS: dict[str, float] = {
    "broadcast_in_dim": 0.0, "reshape": 0.25, "transpose": 0.0, "squeeze": 0.0,
    "slice": 0.0, "split": 0.0, "rev": 0.0, "unstack": 0.0,
    "sort": 40.0,
    "exp": 2.0, "exp2": 2.0, "log": 2.0, "tanh": 2.0, "logistic": 2.0, "erf": 3.0, "sin": 8.0,
    "cos": 8.0, "pow": 4.0, "atan2": 4.0, "erf_inv": 12.0, "log1p": 2.0, "expm1": 2.0,
    "cumsum": 3.0, "select_n": 1.0, "convert_element_type": 1.0,
    "reduce_window_max": 8.0, "reduce_window_min": 8.0, "reduce_window_sum": 4.0,
}  # fmt: skip

# Nanoseconds for an element that moves by an index.
_MOVED: dict[str, float] = {"gather": 4.0, "scatter": 8.0, "scatter-add": 8.0, "scatter_add": 8.0}

# Nanoseconds for one product in a sum of products, and for the copy of an element of a window.
_PRODUCT = 0.02
_COPY = 1.5

# Microseconds that XLA's compiler takes for an equation, and more for some.
_COMPILING = 1_500.0
_COMPILING_PRODUCT = 8_000.0
_COMPILING_CONVOLUTION = 80_000.0


def work_of(equation: Equation) -> float:
    """The microseconds that NumPy takes for an equation."""
    elements = max([each.size for each in (*equation.inputs, *equation.outputs)], default=0)
    nanoseconds = elements * _ELEMENTS.get(equation.name, _ELEMENT)
    params = equation.params
    if equation.name in _MOVED:
        # The indices come second, and what is scattered third.
        moved = equation.outputs[0] if equation.name == "gather" else equation.inputs[2]
        nanoseconds += moved.size * _MOVED[equation.name]
    elif equation.name == "dot_general":
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
        nanoseconds += equation.outputs[0].size * terms * _PRODUCT + _COPY * copies
    elif equation.name.startswith("reduce_window"):
        window = math.prod(params["window_dimensions"])
        nanoseconds = _ELEMENTS[equation.name] * equation.outputs[0].size * window
    return STEP + nanoseconds / 1000


def compiling_of(equation: Equation, native: bool) -> float:
    """The microseconds that XLA takes to compile an equation in a function; see `Plan`."""
    if equation.name == "dot_general":
        return _COMPILING + _COMPILING_PRODUCT
    if equation.name == "conv_general_dilated" and not native:
        return _COMPILING + _COMPILING_CONVOLUTION
    return _COMPILING
