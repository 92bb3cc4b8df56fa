"""Rules that a native kernel computes for all parameters of a group in one pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax

from flambeau.ops.native import many
from flambeau.optim.precision import number

__all__: list[str] = []

Rule = TypeVar("Rule", bound=Callable[..., Any])


class Fused(NamedTuple):
    """A native kernel that computes a rule.

    Attributes:
        name: The kernel's name, without ``flambeau_``.
        states: The names of the state, in the kernel's order.
        numbers: From the rule's ``hyper`` to the kernel's numbers; ``None`` becomes 0.
        flags: The kernel's other attributes.
    """

    name: str
    states: tuple[str, ...]
    numbers: Callable[[Any], tuple[Any, ...]]
    flags: dict[str, bool]


class Member(NamedTuple):
    """A parameter and the inputs of its step.

    Attributes:
        facts: The flags of its rule, as pairs.
        param: The parameter's array.
        grad: Its gradient.
        state: Its state by name.
    """

    facts: tuple[tuple[str, Any], ...]
    param: Any
    grad: Any
    state: dict[str, Any]


def by_kernel(describe: Callable[[Any, Any], Fused | None]) -> Callable[[Rule], Rule]:
    """A decorator for a rule that a kernel can compute as well.

    Args:
        describe: From the rule's ``hyper`` and ``flags`` to the kernel; ``None`` if there is none.
    """

    def with_kernel(rule: Rule) -> Rule:
        rule.describe = describe  # pyright: ignore[reportFunctionMemberAccess]
        return rule

    return with_kernel


def in_one_pass(
    rule: Callable[..., Any], one: Callable[..., Any], members: list[Member], hyper: Any
) -> dict[int, tuple[Any, dict[str, Any]]]:
    """The new parameters and states of the members that a kernel updates, by position.

    Args:
        rule: The rule of all members.
        one: From ``(rule, facts, param, grad, state, hyper)`` to the new parameter and state.
        members: The members of one group.
        hyper: The group's numbers.
    """
    describe = getattr(rule, "describe", None)
    if describe is None or not members:
        return {}
    facts = members[0].facts
    fused: Fused | None = describe(hyper, dict(facts))
    if fused is None:
        return {}
    taken = {
        place: (each.param, each.grad, *(each.state[name] for name in fused.states))
        for place, each in enumerate(members)
        if each.facts == facts and not isinstance(each.grad, tuple)  # A sparse gradient.
    }
    taken = {place: own for place, own in taken.items() if many.takes(fused.name, own)}
    if not taken:
        return {}

    def plain(hyper: Any, param: Any, grad: Any, *state: Any) -> Any:
        named = dict(zip(fused.states, state, strict=True))
        new, named = one(rule, facts, param, grad, named, jax.tree.map(number, hyper))
        return new, *(named[name] for name in fused.states)

    found = many.update(
        fused.name, fused.numbers, hyper, list(taken.values()), plain, **fused.flags,
        maximize=bool(dict(facts).get("maximize")),
    )  # fmt: skip
    return {
        place: (new, dict(zip(fused.states, state, strict=True)))
        for place, (new, *state) in zip(taken, found, strict=True)
    }
