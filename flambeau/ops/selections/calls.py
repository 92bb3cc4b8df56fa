"""Helpers of the rules for operators on Selections: arguments by name, agreement, results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from flambeau.core.tensor import Tensor
from flambeau.ops.selections.selection import Selection

__all__: list[str] = []

#: Computes an operator on Selections from its function and its arguments.
Rule = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def by_name(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by the names of the parameters, defaults filled in."""
    declared = getattr(func, "op", None)
    if declared is not None:
        return dict(zip(declared.names, declared.bind(args, kwargs), strict=True))
    call = inspect.signature(func).bind(*args, **kwargs)
    call.apply_defaults()
    return dict(call.arguments)


def selections_in(values: Iterable[Any]) -> Iterator[Selection]:
    """The Selections among ``values`` and in the lists among them."""
    for each in values:
        if isinstance(each, Selection):
            yield each
        elif isinstance(each, list | tuple):
            yield from selections_in(each)


def agreeing(name: str, values: Iterable[Any]) -> Selection:
    """The first Selection among ``values``, once it is sure that all were made by one mask.

    Raises:
        TracedValueError: Two were not, as far as the program shows.
    """
    first, *others = selections_in(values)
    for each in others:
        if not first.is_as_long_as(each):
            first.refuse(
                f"{name}() meets selections by two masks, which may pick different numbers of "
                f"elements (the other one was made at {each.line})",
                "select both by one mask, such as mask1 & mask2, or use flambeau.where",
            )
    return first


def refuse_length_of_other(name: str, selection: Selection, shape: Any) -> NoReturn:
    """Fail where a tensor of a known length meets a Selection, which may have another."""
    selection.refuse(
        f"{name}() meets a selection and a tensor of shape {list(shape)}, which may differ in "
        "length",
        "select from both by the same mask",
    )


def only(name: str, given: dict[str, Any], argument: str = "input") -> Selection:
    """The Selection that is the argument ``argument``, once it is sure that no other one is.

    Raises:
        TracedValueError: Another argument is a Selection.
    """
    first = agreeing(name, given.values())
    if any(each is not given[argument] for each in selections_in(given.values())):
        refuse_operator(name, first)
    return given[argument]


def refuse_operator(name: str, selection: Selection) -> NoReturn:
    """Fail, since an operator has no form for tensors whose length is not known."""
    selection.refuse(f"{name}() cannot compute with a selection in this way")


def mapped(function: Callable[[Tensor], Any], result: Any) -> Any:
    """``result`` with ``function`` applied to each tensor in it."""
    if isinstance(result, Tensor):
        return function(result)
    if isinstance(result, list | tuple):
        found = [mapped(function, each) for each in result]
        return type(result)(*found) if hasattr(result, "_fields") else type(result)(found)
    return result
