"""Losses of selected predictions: the loss of each lane, and the sum or mean over lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.ops.selections.calls import agreeing, by_name, refuse_length_of_other, refuse_operator
from flambeau.ops.selections.elementwise import elementwise
from flambeau.ops.selections.reductions import mean_of_all
from flambeau.ops.selections.selection import Selection, entered

__all__: list[str] = []

# The mean of these losses is divided by the sum of the weights, if there are any.
_WEIGHTED = {"mse_loss", "l1_loss", "huber_loss"}


def loss(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of losses that compare element with element."""
    given = by_name(func, args, kwargs)
    reduction = given["reduction"]
    if func.__name__ in _WEIGHTED and given["weight"] is not None and reduction == "mean":
        refuse_operator(func.__name__, agreeing(func.__name__, given.values()))
    losses = elementwise(func, (), {**given, "reduction": "none"})
    return _reduced(losses, reduction)


def _reduced(losses: Selection, reduction: str) -> Any:
    if reduction == "none":
        return losses
    if reduction == "mean":
        return mean_of_all(losses)
    total = losses.filled(0).sum()
    if reduction == "sum":
        return total
    if reduction == "batchmean":
        return total / (losses.lanes.shape[0] if losses.hidden else losses.count())
    raise ValueError(f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}")


def row_loss(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of losses with one number for each row of a batch, whose rows are lanes."""
    name = func.__name__
    given = by_name(func, args, kwargs)
    first = agreeing(name, given.values())
    lanes = {}
    for key, each in given.items():
        if isinstance(each, Selection) and each.hidden:
            refuse_operator(name, each)
        if isinstance(each, Tensor) and not isinstance(each, Selection):
            if key != "weight":
                refuse_length_of_other(name, first, each.shape)
            if each.requires_grad:
                refuse_operator(name, first)
        lanes[key] = each.lanes if isinstance(each, Selection) else each
    losses = func(**{**lanes, "reduction": "none"})
    return _reduced(first.like(losses, 0), given["reduction"])


def classes(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The rule of `cross_entropy` and `nll_loss`: unselected lanes become ignored targets."""
    name = func.__name__
    given = by_name(func, args, kwargs)
    input, target = given["input"], given["target"]
    first = agreeing(name, (input, target))
    for each in (input, target):
        if not isinstance(each, Selection):
            refuse_length_of_other(name, first, each.shape)
    if target.is_floating_point():
        return _of_probabilities(func, given)
    place = 0 if input.hidden == 0 else input.hidden - 1
    if input.hidden == min(input.ndim - 1, 1) or target.hidden != place:
        refuse_operator(name, first)
    targets = target.filled(given["ignore_index"])
    lanes = {**given, "input": input.filled(0), "target": targets}
    found = func(**lanes)
    if given["reduction"] != "none":
        return found
    return entered(found, target.mask, target.hidden, target.line)


def _of_probabilities(func: Callable[..., Any], given: dict[str, Any]) -> Any:
    input, target = given["input"], given["target"]
    weight = given["weight"]
    if input.hidden or target.hidden or (weight is not None and weight.requires_grad):
        refuse_operator(func.__name__, input)
    lanes = {**given, "input": input.lanes, "target": target.lanes, "reduction": "none"}
    losses = input.like(func(**lanes))
    if given["reduction"] != "mean":
        return _reduced(losses, given["reduction"])
    # The mean is over samples, and so are the losses in each lane.
    total = losses.filled(0).sum()
    samples = losses.lanes[:1].numel()
    return total / (losses.count() * samples)
