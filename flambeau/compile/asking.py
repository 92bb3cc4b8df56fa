"""Questions of a compiled function about its tensors besides their elements.

An argument's attributes, hooks, and whether it is a view, are looked up where the caller has them,
and the answers are facts that a program depends on. Whatever a function sets there, hooks and
attributes, each call sets too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flambeau.compile.freezing import freeze
from flambeau.compile.where import Argument, Asked, Attribute, Hook, Where
from flambeau.core.before import Before
from flambeau.core.identity import MISSING
from flambeau.core.tensor import Tensor

Question = Callable[..., Any]


class Facts:
    """The questions of a trace about its arguments, by their stand-ins."""

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
        """Give ``stand_in`` the attributes that the user has set on the argument."""
        if stand_in in self._shown:
            return
        self._shown.add(stand_in)
        own = vars(stand_in)
        for name in self.ask(stand_in, names_of_attributes):
            if name not in own:
                own[name] = self.shown[stand_in, name] = self.ask(stand_in, attribute, name)

    def new_attributes(self) -> Iterator[tuple[Where, Any]]:
        """The attributes that the function has set on arguments."""
        for stand_in, (position, _) in self.given.items():
            for name, value in stand_in._user_attributes().items():
                if self.shown.get((stand_in, name), MISSING) is not value:
                    yield Attribute(Argument(position), name), value

    def all(self) -> list[tuple[Asked, Any]]:
        """All questions, with the answers in a form that compares."""
        return [
            (Asked(Argument(self.given[stand_in][0]), question, args), answer)
            for (stand_in, question, args), answer in self._known.items()
        ]


def attribute(tensor: Tensor, name: str) -> Any:
    """An attribute that the user has set on ``tensor``; `MISSING` if there is none."""
    return vars(tensor).get(name, MISSING)


def names_of_attributes(tensor: Tensor) -> tuple[str, ...]:
    """The names of the attributes that the user has set on ``tensor``."""
    return (*tensor._user_attributes(),)


class HookSnapshot:
    """The hooks of tensors as they were before a trace registered others.

    Args:
        before: Remembers what tables held.
    """

    def __init__(self, before: Before) -> None:
        self._before = before
        self.tables: dict[int, tuple[Tensor, str, Any]] = {}

    def note(self, tensor: Tensor, method: str, hooks: Any) -> None:
        """Remember ``hooks``, a table to which ``method`` of ``tensor`` is about to add one."""
        self.tables.setdefault(id(hooks), (tensor, method, hooks))
        self._before.note(hooks)

    def new(self, where_is: Callable[[Tensor], Where]) -> list[tuple[Hook, Any]]:
        """The hooks that were added and not removed again."""
        return [
            (Hook(where_is(tensor), method), hook)
            for tensor, method, hooks in self.tables.values()
            for number, hook in hooks.items()
            if number not in self._before.of(hooks)
        ]

    def put_back(self) -> None:
        """Remove the hooks that were added."""
        for _, _, hooks in self.tables.values():
            for number in [each for each in hooks if each not in self._before.of(hooks)]:
                del hooks[number]
