"""Operators along dimensions: over the lanes, or within each lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.kernels.single_precision import single
from flambeau.core.operators.op import op
from flambeau.core.support.dtype import FLOATING, dtype, iinfo
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trees import map_tensors
from flambeau.ops.common.checks import Dims, wrap_dims
from flambeau.ops.elementwise.selection import where
from flambeau.ops.reductions.extremum import dimension_or_other, nanmedian
from flambeau.ops.reductions.reduction import averaged, mean_and_variance, root, spread_arguments
from flambeau.ops.selections.calls import Rule, agreeing, by_name, only, refuse_operator
from flambeau.ops.selections.elementwise import elementwise
from flambeau.ops.selections.selection import Selection, entered

__all__: list[str] = []


# Neutral elements, by dtype


def least(kind: dtype) -> Any:
    """The least value of the dtype."""
    return _bound(kind, least=True)


def greatest(kind: dtype) -> Any:
    """The greatest value of the dtype."""
    return _bound(kind, least=False)


def _bound(kind: dtype, least: bool) -> Any:
    if kind.name == "bool":
        return not least
    if kind.category < FLOATING:
        return iinfo(kind).min if least else iinfo(kind).max
    return float("-inf" if least else "inf")


# Within the lanes


def beside(
    func: Callable[..., Any], given: dict[str, Any], selection: Selection, dropped: Any = ()
) -> Any:
    """Compute within each lane, if none of the dimensions is the hidden one.

    Args:
        func: The operator.
        given: Its arguments, including the Selection.
        selection: The Selection.
        dropped: The dimensions that the result lacks, counted from the front.
    """
    hidden = selection.hidden - sum(dim < selection.hidden for dim in dropped)
    lanes = {
        key: each.lanes if isinstance(each, Selection) else each for key, each in given.items()
    }
    return map_tensors(lambda result: selection.like(result, hidden), func(**lanes))


def along(neutral: Any = None, dim: Any = -1) -> Rule:
    """The rule of an operator along one dimension that keeps the shape, such as `cumsum`.

    Args:
        neutral: The value for unselected lanes if it runs over the lanes; ``None`` if it cannot.
        dim: Its default dimension, if the operator has no such parameter.
    """

    def rule(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = by_name(func, args, kwargs)
        selection = only(func.__name__, given)
        dims = wrap_dims(given.get("dim", dim), selection.ndim, func.__name__)
        if any(isinstance(each, Tensor) and each is not selection for each in given.values()):
            refuse_operator(func.__name__, selection)
        if selection.hidden not in dims:
            return beside(func, given, selection)
        if neutral is None:
            refuse_operator(func.__name__, selection)
        given["input"] = selection.filled(neutral)
        # It mixes lanes, so only selected lanes may send cotangents back.
        return entered(func(**given), selection.mask, selection.hidden, selection.line)

    return rule


def compared(dim: int) -> Rule:
    """The rule of an operator that compares two tensors along one dimension, which is dropped.

    Args:
        dim: The dimension, if the operator has no such parameter.
    """

    def rule(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = by_name(func, args, kwargs)
        selection = agreeing(func.__name__, given.values())
        dims = wrap_dims(given.get("dim", dim), selection.ndim, func.__name__)
        tensors = [each for each in given.values() if isinstance(each, Tensor)]
        alike = all(isinstance(e, Selection) and e.hidden == selection.hidden for e in tensors)
        if not alike or selection.hidden in dims:
            refuse_operator(func.__name__, selection)
        return beside(func, given, selection, () if given.get("keepdim") else dims)

    return rule


# Over the lanes


def reducing(neutral: Any) -> Rule:
    """The rule of a reduction.

    Args:
        neutral: The neutral element, or a function of the dtype.
    """

    def rule(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _reduced(func, by_name(func, args, kwargs), neutral)

    return rule


def _reduced(
    func: Callable[..., Any], given: dict[str, Any], neutral: Any, argument: str = "input"
) -> Any:
    selection = only(func.__name__, given, argument)
    dims = wrap_dims(given["dim"], selection.ndim, func.__name__)
    if selection.hidden not in dims:
        return beside(func, given, selection, () if given.get("keepdim") else dims)
    fill = neutral(selection.dtype) if callable(neutral) else neutral
    given[argument] = selection.filled(fill)
    return func(**given)


def flags(neutral: bool) -> Rule:
    """The rule of `all` and `any`; with no dimensions, ``()``, all are kept."""

    def rule(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = by_name(func, args, kwargs)
        if given["dim"] in ((), []):
            return beside(func, given, only(func.__name__, given))
        return _reduced(func, given, neutral)

    return rule


def norm(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of vector norms: 0 is neutral for orders that are not negative."""
    given = by_name(func, args, kwargs)
    argument = next(iter(given))
    order, dims = given.get("p", given.get("ord")), given["dim"]
    is_matrix = isinstance(dims, list | tuple) and len(dims) > 1
    is_other = order not in (None, "fro") and (is_matrix or isinstance(order, str))
    if is_other or (isinstance(order, int | float) and order < 0):
        refuse_operator(func.__name__, only(func.__name__, given, argument))
    return _reduced(func, given, 0, argument)


@op(name="mean")
def _mean(input: Array, mask: Array, dim: Dims, keepdim: bool, dtype: Any) -> Array:
    dims = wrap_dims(dim, input.ndim, "mean")
    input = averaged("mean", input, dtype)
    return jnp.mean(single(input), dims, keepdims=keepdim, where=mask).astype(input.dtype)


def mean(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `mean`; NaN if nothing is selected."""
    given = by_name(func, args, kwargs)
    selection = only("mean", given)
    dims = wrap_dims(given["dim"], selection.ndim, "mean")
    if selection.hidden not in dims:
        return beside(func, given, selection, () if given["keepdim"] else dims)
    return _mean(
        selection.lanes, selection.broadcastable_mask(), dims, given["keepdim"], given["dtype"]
    )


def mean_of_all(selection: Selection) -> Tensor:
    """The mean of all elements."""
    return _mean(selection.lanes, selection.broadcastable_mask(), None, False, None)


@op(name="var", widen=True)
def _variance(input: Array, mask: Array, dim: Dims, correction: float, keepdim: bool) -> Any:
    average, variance = mean_and_variance("var", input, dim, correction, keepdim, mask)
    return variance, average


@op(name="std", widen=True)
def _deviation(input: Array, mask: Array, dim: Dims, correction: float, keepdim: bool) -> Any:
    average, variance = mean_and_variance("std", input, dim, correction, keepdim, mask)
    return root(variance), average


def variance(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `var`, `std`, `var_mean` and `std_mean`."""
    name = func.__name__
    if not args:
        kwargs = dict(kwargs)
        args = (kwargs.pop("input"),)
    selection = only(name, {"input": args[0]})
    dim, correction, keepdim = spread_arguments(name, args[1:], kwargs)
    dims = wrap_dims(dim, selection.ndim, name)
    if selection.hidden not in dims:
        hidden = selection.hidden - (0 if keepdim else sum(d < selection.hidden for d in dims))
        found = func(selection.lanes, dims, correction=correction, keepdim=keepdim)
        return map_tensors(lambda lanes: selection.like(lanes, hidden), found)
    compute = _deviation if name.startswith("std") else _variance
    found = compute(selection.lanes, selection.broadcastable_mask(), dims, correction, keepdim)
    return found if name.endswith("_mean") else found[0]


# Extremes and order


def extreme(neutral: Callable[[dtype], Any]) -> Rule:
    """The rule of `max` and `min`; NaN, or the least integer, if nothing is selected."""
    whole = reducing(neutral)

    def rule(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = by_name(func, args, kwargs)
        dim, other = dimension_or_other(
            func.__name__, given["dim"], given["other"], given["keepdim"]
        )
        if other is not None:
            return elementwise(func, args, kwargs)
        selection = only(func.__name__, given)
        if dim is None:
            return _or_nothing(selection, func(selection.filled(neutral(selection.dtype))))
        result = whole(func, args, kwargs)
        if isinstance(result.values, Selection):
            return result
        values, indices = result
        values = _or_nothing(selection, values)
        return type(result)(values, _rank(selection)[indices])

    return rule


def bounds(neutral: Callable[[dtype], Any]) -> Rule:
    """The rule of `amax` and `amin`."""
    whole = reducing(neutral)

    def rule(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = whole(func, args, kwargs)
        if isinstance(result, Selection):
            return result
        return _or_nothing(only(func.__name__, by_name(func, args, kwargs)), result)

    return rule


def _or_nothing(selection: Selection, result: Tensor) -> Tensor:
    """``result``, or NaN if nothing is selected, which is an error if it is known."""
    if not result.is_floating_point():
        return result
    return where(selection.mask.any(), result, float("nan"))


def position(neutral: Callable[[dtype], Any]) -> Rule:
    """The rule of `argmax` and `argmin`, whose results count only selected lanes."""

    def rule(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = by_name(func, args, kwargs)
        selection = only(func.__name__, given)
        if given["dim"] is None and selection.ndim > 1:
            refuse_operator(func.__name__, selection)
        result = _reduced(func, given, neutral)
        return result if isinstance(result, Selection) else _rank(selection)[result]

    return rule


def _rank(selection: Selection) -> Tensor:
    """The number of selected lanes before each; 0 before the first."""
    return (selection.mask.cumsum(0) - 1).clamp(min=0)


def without_nan(ignoring: Callable[..., Any]) -> Rule:
    """The rule of an order statistic, by the operator ``ignoring`` that skips NaN."""

    def rule(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = by_name(func, args, kwargs)
        selection = only(func.__name__, given)
        is_over_lanes = given["dim"] is None or selection.ndim == 1
        has_indices = given["dim"] is not None and ignoring is nanmedian
        if not is_over_lanes or has_indices or not selection.is_floating_point():
            refuse_operator(func.__name__, selection)
        nan = float("nan")
        given["input"] = selection.filled(nan)
        found = ignoring(**given)
        if func is ignoring:
            return found
        return where(selection.filled(0).isnan().any(), nan, found)

    return rule
