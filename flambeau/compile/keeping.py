"""What a program puts into places outside, at each call.

A trace finds out which values its function leaves behind, in containers and attributes; a recipe
says how to make such a value again: from the tensors of a call, which are results like those that
the function returns, from containers that are there, and from what never changes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from flambeau.compile.containers import Log, Watch, is_of_trace, watch_of
from flambeau.compile.errors import CompileError
from flambeau.compile.guard import freeze
from flambeau.compile.places import MISSING
from flambeau.compile.slots import KINDS, Asked, ItemSlot
from flambeau.core.pytree import is_tuple
from flambeau.core.tensor import Tensor

_NUMBERS = (int, float, complex, np.number)


class Kept(NamedTuple):
    """The tensor that is result ``number``."""

    number: int


class Standing:
    """Container ``number`` of those that stand outside."""

    def __init__(self, number: int) -> None:
        self.number = number


class Constant(NamedTuple):
    """A value that is the same at each call."""

    value: Any


class Built:
    """A container that each call makes.

    Args:
        kind: Its class.
        like: What the trace made.
    """

    def __init__(self, kind: type, like: Any) -> None:
        self.kind = kind
        self.option = getattr(like, "default_factory", getattr(like, "maxlen", None))
        #: The members, in pairs with their keys if it is a dictionary.
        self.parts: list[Any] = []

    def empty(self) -> Any:
        """The container without its members; not for tuples."""
        if self.kind is defaultdict:
            return defaultdict(self.option)
        return deque(maxlen=self.option) if self.kind is deque else self.kind()


Recipe = Kept | Standing | Constant | Built


class Replay(NamedTuple):
    """A change of a container, to be made at each call.

    Attributes:
        number: Of the container.
        method: What to call; ``"rewrite"`` to replace all members.
        parts: Recipes of the arguments, or of the members.
    """

    number: int
    method: str
    parts: list[Any]


class Kitchen:
    """Finds the recipes of what a trace leaves behind.

    Args:
        log: What it has changed in containers.
        keep: Makes a tensor a result of the program, and gives the number of that.
    """

    def __init__(self, log: Log, keep: Callable[[Tensor], int]) -> None:
        self.log = log
        self.keep = keep
        self.numbers: dict[Watch, int] = {}
        #: Where Python numbers are left.
        self.numbers_in: dict[str, None] = {}
        self._built: dict[int, Built] = {}

    def number_of(self, watch: Watch) -> int:
        """The number of a container from outside."""
        return self.numbers.setdefault(watch, len(self.numbers))

    def recipe(self, value: Any, where: Any) -> Any:
        """How to make ``value``, which is left at ``where``, again.

        Raises:
            CompileError: It is an object that keeps a tensor of the trace.
        """
        if isinstance(value, Tensor):
            return Kept(self.keep(value))
        watch = watch_of(value) or self.log.watches.get(id(value))
        if watch is not None:
            return Standing(self.number_of(watch))
        kind = type(value)
        if kind in KINDS:
            return self._container(value, kind, where)
        if is_tuple(value) and not hasattr(kind, "numel"):
            built = Built(kind, value)
            built.parts = [self.recipe(each, where) for each in value]
            is_constant = all(isinstance(each, Constant) for each in built.parts)
            return Constant(value) if is_constant else built
        self._check(value, where)
        if _is_number(value):
            self.numbers_in[str(where)] = None
        return Constant(value)

    def _container(self, value: Any, kind: type, where: Any) -> Built:
        built = self._built.get(id(value))
        if built is None:
            built = self._built[id(value)] = Built(kind, value)
            items = value.items() if isinstance(value, dict) else enumerate(value)
            parts = [(key, self.recipe(each, where)) for key, each in items]
            built.parts = parts if isinstance(value, dict) else [part for _, part in parts]
        return built

    def replays(self, active: list[Watch]) -> list[Replay]:
        """The changes of containers, in order."""
        found = []
        for watch, method, args in self.log.changes:
            if method == "reach":
                parts = [Constant(args[0]), self.recipe(args[1].stand_in, watch.slots[0])]
            elif method in ("__setitem__", "insert", "__delitem__"):
                parts = [Constant(args[0])]
                parts += [self.recipe(each, watch.slots[0]) for each in args[1:]]
            else:
                parts = [self.recipe(each, watch.slots[0]) for each in args]
            found.append(Replay(self.number_of(watch), method, parts))
        for watch in active:
            if watch.rewritten:
                slot = watch.slots[0]
                if isinstance(watch.raw, dict):
                    content = [*watch.run("items")]
                    parts = [(key, self.recipe(each, slot)) for key, each in content]
                else:
                    parts = [self.recipe(each, slot) for each in [*watch.run("__iter__")]]
                found.append(Replay(self.number_of(watch), "rewrite", parts))
        return found

    def _check(self, value: Any, where: Any) -> None:
        keeps = is_of_trace(value)
        attributes = getattr(value, "__dict__", {})
        if keeps or any(map(is_of_trace, attributes.values())):
            raise CompileError(
                f"the compiled function leaves an object of class {type(value).__name__} in "
                f"{where}, which would keep a tensor without a value. Leave tensors there, or "
                "lists, dictionaries and tuples of them"
            )


class Keeping:
    """What a program leaves behind at each call.

    Args:
        watches: The containers that it changes or refers to, in order of their numbers.
        replays: The changes.
        assigned: The slots that it puts values into, with their recipes.
    """

    def __init__(
        self,
        watches: Sequence[Watch],
        replays: list[Replay],
        assigned: list[tuple[Any, Recipe]],
    ) -> None:
        self.replays = replays
        self.assigned = assigned
        self.slots = [each.slots for each in watches]

    def holds(self) -> bool:
        """Whether the containers are found where they were, as many different ones as then."""
        found = self.find()
        for container, (_, *others) in zip(found, self.slots, strict=True):
            if any(each.get() is not container for each in others):
                return False
        return len(found) == len({*map(id, found)})

    def find(self) -> list[Any]:
        """The containers as they stand before a call; those that it is to make are empty ones."""
        return [first.get() for first, *_ in self.slots]

    def carry_out(self, containers: list[Any], results: list[Any]) -> None:
        """Leave behind what a call leaves behind.

        Args:
            containers: What `find` gave before the call.
            results: The results of the program.
        """
        made: dict[Built, Any] = {}

        def make(recipe: Any) -> Any:
            if isinstance(recipe, Kept):
                return results[recipe.number]
            if isinstance(recipe, Constant):
                return recipe.value
            if isinstance(recipe, Standing):
                return containers[recipe.number]
            if recipe not in made:
                if issubclass(recipe.kind, tuple):
                    parts = [*map(make, recipe.parts)]
                    is_named = hasattr(recipe.kind, "_fields")
                    made[recipe] = recipe.kind(*parts) if is_named else recipe.kind(parts)
                else:
                    made[recipe] = recipe.empty()
                    fill(made[recipe], recipe.parts)
            return made[recipe]

        def fill(container: Any, parts: list[Any]) -> None:
            if isinstance(container, dict):
                for key, part in parts:
                    container[key] = make(part)
            else:
                container.extend(map(make, parts))

        for number, method, parts in self.replays:
            container = containers[number]
            if method == "rewrite":
                container.clear()
                fill(container, parts)
            elif method == "reach":
                key, inner = parts[0].value, parts[1].number
                containers[inner] = container.setdefault(key, containers[inner])
            else:
                getattr(container, method)(*map(make, parts))
        for slot, recipe in self.assigned:
            slot.set(make(recipe))


def drop_counters(watch: Watch, log: Log) -> list[str]:
    """Stop following what a container counts in Python numbers, and give the names.

    Such as a number that is read and then replaced: if a program followed it, each call would need
    another one. It stays as the trace leaves it, as other side effects of Python do.
    """
    if isinstance(watch.raw, dict):
        return [str(_drop_key(watch, log, key)) for key in watch.touched if _counts(watch, key)]
    content = [*watch.run("__iter__")]
    depends = any(isinstance(each, Asked) for each in watch.asked) or watch.rewritten
    members = *content, *watch.raw
    counts = any(map(_is_number, members)) and not any(map(_is_more, members))
    if not (watch.changed and depends and counts):
        return []
    log.changes = [each for each in log.changes if each.watch is not watch]
    watch.rewritten = False
    watch.asked.clear()
    watch.raw.clear()
    watch.raw.extend(content)
    return [str(watch.slots[0])]


def _counts(watch: Watch, key: Any) -> bool:
    before = watch.raw.get(key, MISSING)
    now = dict.get(watch.stand_in, key, MISSING)
    asked = ItemSlot(watch.slots[0], key) in watch.asked
    return (
        asked and now is not MISSING and (_is_number(before) or _is_number(now))
        and not (_is_more(before) or _is_more(now)) and freeze(before) != freeze(now)
    )  # fmt: skip


def _drop_key(watch: Watch, log: Log, key: Any) -> ItemSlot:
    slot = ItemSlot(watch.slots[0], key)
    log.changes = [
        each for each in log.changes
        if each.watch is not watch or each.method != "__setitem__" or each.args[0] != key
    ]  # fmt: skip
    watch.asked.pop(slot)
    watch.asked.pop(Asked(watch.slots[0], "has", key), None)
    watch.raw[key] = dict.get(watch.stand_in, key)
    return slot


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _is_more(value: Any) -> bool:
    """Whether ``value`` may hold tensors."""
    return value is not MISSING and value is not None and not isinstance(value, (str, *_NUMBERS))
