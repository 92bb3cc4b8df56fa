"""What a compiled function asks about its tensors besides their elements.

An argument's attributes, hooks, and whether it is a view, are looked up where the caller has them,
and the answers are facts that a program depends on. Whatever a function sets there, hooks and
attributes, each call sets too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from flambeau.compile.freezing import freeze
from flambeau.compile.places import MISSING
from flambeau.core.tensor import Tensor

Question = Callable[..., Any]


class Fact(NamedTuple):
    """What a program takes for granted about an argument.

    Attributes:
        position: Of the argument among the leaves.
        question: What to ask about it,
        args: with which arguments.
        answer: The answer, in a form that compares.
    """

    position: int
    question: Question
    args: tuple[Any, ...]
    answer: Any

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether it is so in a call with these arguments."""
        return freeze(self.question(leaves[self.position], *self.args)) == self.answer


class Facts:
    """What a trace asks about its arguments, by their stand-ins."""

    def __init__(self) -> None:
        self.given: dict[Tensor, tuple[int, Tensor]] = {}
        self._known: dict[Any, Any] = {}
        self._shown: set[Tensor] = set()
        #: Attributes that stand-ins have only been given to be looked at.
        self.shown: dict[tuple[Tensor, str], Any] = {}

    def ask(self, stand_in: Tensor, question: Question, *args: Any) -> Any:
        """The answer to a question about the argument behind ``stand_in``."""
        answer = question(self.given[stand_in][1], *args)
        self._known.setdefault((stand_in, question, args), freeze(answer))
        return answer

    def show(self, stand_in: Tensor) -> None:
        """Let ``stand_in`` have what the user has set on the argument."""
        if stand_in in self._shown:
            return
        self._shown.add(stand_in)
        own = vars(stand_in)
        for name in self.ask(stand_in, names_of_attributes):
            if name not in own:
                own[name] = self.shown[stand_in, name] = self.ask(stand_in, attribute, name)

    def new_attributes(self) -> Iterator[tuple[ArgumentAttribute, Any]]:
        """What the function has set on arguments."""
        for stand_in, (position, _) in self.given.items():
            for name, value in stand_in._user_attributes().items():
                if self.shown.get((stand_in, name), MISSING) is not value:
                    yield ArgumentAttribute(position, name), value

    def all(self) -> list[Fact]:
        """What was asked."""
        return [
            Fact(self.given[stand_in][0], question, args, answer)
            for (stand_in, question, args), answer in self._known.items()
        ]


def attribute(tensor: Tensor, name: str) -> Any:
    """An attribute that the user has set on ``tensor``; `MISSING` if there is none."""
    return vars(tensor).get(name, MISSING)


def names_of_attributes(tensor: Tensor) -> tuple[str, ...]:
    """The names of what the user has set on ``tensor``."""
    return (*tensor._user_attributes(),)


class ArgumentAttribute(NamedTuple):
    """An attribute that a function sets on an argument.

    Attributes:
        position: Of the argument among the leaves.
        name: Of the attribute.
    """

    position: int
    name: str

    def set_in(self, leaves: Sequence[Any], value: Any) -> None:
        """Set it in a call with these arguments."""
        setattr(leaves[self.position], self.name, value)

    def __str__(self) -> str:
        return f"the attribute {self.name!r} of an argument"


class NewHook(NamedTuple):
    """A hook that a function registers.

    Attributes:
        where: Where its tensor is found; see `flambeau.compile.slots.find`.
        method: The method of the tensor that registers it.
        hook: The hook.
    """

    where: Any
    method: str
    hook: Callable[..., Any]


class HookSnapshot:
    """The hooks of tensors as they were before a trace registered others."""

    def __init__(self) -> None:
        self.tables: dict[int, tuple[Tensor, str, Any, dict[int, Any]]] = {}

    def note(self, tensor: Tensor, method: str, hooks: Any) -> None:
        """Remember ``hooks``, a table to which ``method`` of ``tensor`` is about to add one."""
        self.tables.setdefault(id(hooks), (tensor, method, hooks, dict(hooks)))

    def new(self, where_is: Callable[[Tensor], Any]) -> list[NewHook]:
        """The hooks that were added and not removed again."""
        return [
            NewHook(where_is(tensor), method, hook)
            for tensor, method, hooks, before in self.tables.values()
            for number, hook in hooks.items()
            if number not in before
        ]

    def put_back(self) -> None:
        """Remove what was added."""
        for _, _, hooks, before in self.tables.values():
            for number in [number for number in hooks if number not in before]:
                del hooks[number]
