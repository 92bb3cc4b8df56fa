"""Facts about arguments besides their elements: attributes, hooks, whether they are views.

A trace looks them up on the caller's tensors, and its program depends on the answers. Hooks and
attributes that the function sets, each call sets too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flambeau.compile.guarding.freezing import freeze
from flambeau.compile.guarding.where import Argument, Asked, Attribute, Hook, Where
from flambeau.core.support.identity import MISSING
from flambeau.core.values.before import Before
from flambeau.core.values.tensor import Tensor

Question = Callable[..., Any]


class Facts:
    """The questions that a trace asks about its arguments, by their stand-ins."""

    def __init__(self) -> None:
        self.given: dict[Tensor, tuple[int, Tensor]] = {}
        self._known: dict[Any, Any] = {}
        self._shown: set[Tensor] = set()
        #: Attributes that were copied from arguments to their stand-ins.
        self.shown: dict[tuple[Tensor, str], Any] = {}

    def ask(self, stand_in: Tensor, question: Question, *args: Any) -> Any:
        """The answer to a question about the argument behind ``stand_in``."""
        answer = question(self.given[stand_in][1], *args)
        self._known.setdefault((stand_in, question, args), freeze(answer))
        return answer

    def show(self, stand_in: Tensor) -> None:
        """Copy the attributes that the user has set on the argument to ``stand_in``."""
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
        """All questions, each with its frozen answer."""
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
    """The hooks that tensors had before a trace registered more.

    Args:
        before: Remembers the content of the tables of hooks.
    """

    def __init__(self, before: Before) -> None:
        self._before = before
        self.tables: dict[int, tuple[Tensor, str, Any]] = {}

    def note(self, tensor: Tensor, method: str, hooks: Any) -> None:
        """Remember the table ``hooks`` before ``method`` of ``tensor`` adds a hook to it."""
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
