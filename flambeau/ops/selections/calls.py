"""Helpers of the rules for operators on Selections: named arguments, matching masks, results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from flambeau.core.values.trees import members_of
from flambeau.ops.selections.selection import Selection

__all__: list[str] = []

#: Computes an operator on Selections from its function and its arguments.
Rule = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def by_name(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by parameter name, with defaults filled in."""
    declared = getattr(func, "op", None)
    if declared is not None:
        return dict(zip(declared.names, declared.bind(args, kwargs), strict=True))
    call = inspect.signature(func).bind(*args, **kwargs)
    call.apply_defaults()
    return dict(call.arguments)


def selections_in(values: Iterable[Any]) -> Iterator[Selection]:
    """The Selections among ``values`` and in the lists among them."""
    return (each for each in members_of(values) if isinstance(each, Selection))


def agreeing(name: str, values: Iterable[Any]) -> Selection:
    """The first Selection among ``values``, after a check that all have the same mask.

    Raises:
        TracedValueError: Two have different masks, as far as the program shows.
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
    """Fail if a tensor of known length is combined with a Selection, whose length may differ."""
    selection.refuse(
        f"{name}() meets a selection and a tensor of shape {list(shape)}, which may differ in "
        "length",
        "select from both by the same mask",
    )


def only(name: str, given: dict[str, Any], argument: str = "input") -> Selection:
    """The Selection that is the argument ``argument``, after a check that it is the only one.

    Raises:
        TracedValueError: Another argument is a Selection.
    """
    first = agreeing(name, given.values())
    if any(each is not given[argument] for each in selections_in(given.values())):
        refuse_operator(name, first)
    return given[argument]


def refuse_operator(name: str, selection: Selection) -> NoReturn:
    """Fail, since an operator has no form for tensors of unknown length."""
    selection.refuse(f"{name}() cannot compute with a selection in this way")
