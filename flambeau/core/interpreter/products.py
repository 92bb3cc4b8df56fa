"""Rules for products of matrices, convolutions, and reductions of windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from jax.lax import Precision

from flambeau.core.interpreter.blas import matmul
from flambeau.core.interpreter.equation import Computation, Equation, Rule, Unknown

_PRECISIONS = (None, Precision.DEFAULT, Precision.HIGH, Precision.HIGHEST)


def _check(equation: Equation) -> None:
    """Refuse precisions and dtypes by which XLA computes in ways of its own."""
    precision = equation.params["precision"]
    given = precision if isinstance(precision, tuple) else (precision,)
    dtypes = {each.dtype for each in (*equation.inputs, *equation.outputs)}
    if any(each not in _PRECISIONS for each in given) or len(dtypes) > 1 or equation.kind == "b":
        raise Unknown(f"{equation.name} of {dtypes} in {precision}")


def product(equation: Equation) -> Computation:
    _check(equation)
    if equation.params.get("out_sharding") is not None:
        raise Unknown("dot_general with a sharding")
    contracted, batch = equation.params["dimension_numbers"]
    left, right = (each.shape for each in equation.inputs)
    free = [
        [i for i in range(len(shape)) if i not in contracted[side] and i not in batch[side]]
        for side, shape in enumerate((left, right))
    ]
    samples = tuple(left[i] for i in batch[0])
    rows = math.prod(left[i] for i in free[0])
    inner = math.prod(left[i] for i in contracted[0])
    columns = math.prod(right[i] for i in free[1])
    left_order = (*batch[0], *free[0], *contracted[0])
    right_order = (*batch[1], *contracted[1], *free[1])
    left_shape, right_shape = (*samples, rows, inner), (*samples, inner, columns)
    shape = equation.shape

    def found(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        one = one.transpose(left_order).reshape(left_shape)
        other = other.transpose(right_order).reshape(right_shape)
        return matmul(one, other).reshape(shape)

    return found


def convolution(equation: Equation) -> Computation:
    _check(equation)
    params = equation.params
    numbers, groups = params["dimension_numbers"], params["feature_group_count"]
    if params["batch_group_count"] != 1 or 0 in (*equation.shape, *equation.inputs[1].shape):
        raise Unknown("conv_general_dilated of groups of samples, or of nothing")
    kernel = tuple(equation.inputs[1].shape[i] for i in numbers.rhs_spec[2:])
    lay_out = _windows(
        kernel, params["window_strides"], params["padding"], params["lhs_dilation"],
        params["rhs_dilation"],
    )  # fmt: skip
    order = tuple(np.argsort(numbers.out_spec).tolist())
    filters = equation.inputs[1].shape[numbers.rhs_spec[0]]

    def found(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        # (samples, channels, positions, window), positions first in the products.
        windows = lay_out(x.transpose(numbers.lhs_spec), x.dtype.type(0))
        count, channels = windows.shape[:2]
        rank = len(kernel)
        positions = windows.shape[2 : 2 + rank]
        windows = windows.reshape(count, groups, channels // groups, *windows.shape[2:])
        # (groups, samples, positions, channels of a group, window)
        places = (1, 0, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank))
        rows = windows.transpose(places).reshape(groups, count * math.prod(positions), -1)
        columns = weight.transpose(numbers.rhs_spec).reshape(groups, filters // groups, -1)
        products = matmul(rows, columns.transpose(0, 2, 1))
        products = products.reshape(groups, count, *positions, filters // groups)
        places = (1, 0, 2 + rank, *range(2, 2 + rank))
        return products.transpose(places).reshape(count, filters, *positions).transpose(order)

    return found


def _windows(
    window: tuple[int, ...],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base: Sequence[int],
    dilation: Sequence[int],
) -> Computation:
    """Gives a view of an array that has the elements of each window in dimensions of their own.

    The window's dimensions are the array's last. The view has the leading dimensions, then the
    positions of the window, and then its elements.
    """
    rank = len(window)
    reach = tuple((k - 1) * d + 1 for k, d in zip(window, dilation, strict=True))
    plain = all(low == high == 0 for low, high in padding) and all(each == 1 for each in base)
    borders = [(max(low, 0), max(high, 0)) for low, high in padding]
    # Negative padding leaves the outermost elements out.
    inner = [slice(max(-low, 0), -max(-high, 0) or None) for low, high in padding]
    where = (
        ...,
        *(slice(None, None, s) for s in strides),
        *(slice(None, None, d) for d in dilation),
    )

    def found(x: np.ndarray, value: np.generic) -> np.ndarray:
        if not plain:
            leading = x.shape[:-rank]
            sizes = [
                low + high + (max(0, (n - 1) * b + 1))
                for n, b, (low, high) in zip(x.shape[-rank:], base, borders, strict=True)
            ]
            larger = np.full((*leading, *sizes), value, x.dtype)
            inside = [
                slice(low, low + max(0, (n - 1) * b + 1), b)
                for n, b, (low, _) in zip(x.shape[-rank:], base, borders, strict=True)
            ]
            larger[(..., *inside)] = x
            x = larger[(..., *inner)]
        axes = tuple(range(-rank, 0))
        return np.lib.stride_tricks.sliding_window_view(x, reach, axes)[where]

    return found


def window_reduction(function: np.ufunc, first: Callable[[np.dtype], np.generic]) -> Rule:
    """The rule of a reduction of windows by a function of NumPy for two arrays."""

    def rule(equation: Equation) -> Computation:
        params, rank = equation.params, equation.inputs[0].ndim
        if 0 in equation.shape or 0 in equation.inputs[0].shape:
            raise Unknown("windows of nothing")
        window = tuple(params["window_dimensions"])
        lay_out = _windows(
            window, params["window_strides"], params["padding"],
            params.get("base_dilation") or (1,) * rank,
            params.get("window_dilation") or (1,) * rank,
        )  # fmt: skip
        axes, dtype = tuple(range(rank, 2 * rank)), equation.dtype
        value = first(dtype)
        return lambda x: function.reduce(lay_out(x, value), axes, dtype=dtype)

    return rule


def _zero(dtype: np.dtype) -> np.generic:
    return dtype.type(0)


def least(dtype: np.dtype) -> np.generic:
    return dtype.type(-np.inf) if dtype.kind == "f" else dtype.type(np.iinfo(dtype).min)


def most(dtype: np.dtype) -> np.generic:
    return dtype.type(np.inf) if dtype.kind == "f" else dtype.type(np.iinfo(dtype).max)


#: Rules by primitives.
RULES: dict[str, Rule] = {
    "conv_general_dilated": convolution,
    "dot_general": product,
    "reduce_window_max": window_reduction(np.maximum, least),
    "reduce_window_min": window_reduction(np.minimum, most),
    "reduce_window_sum": window_reduction(np.add, _zero),
}
