"""Values that each call of a program stores in places outside, and returns.

A trace finds the values that its function stores in containers and attributes, and its result.
They are written as Python code that creates them at each call. Names in the code stand for objects
that are not created: tensors, which are results of the program, containers from outside, and
constants.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from flambeau.compile import making, structure
from flambeau.compile.chance import Refusing
from flambeau.compile.containers import Log, Watch
from flambeau.compile.contents import KINDS
from flambeau.compile.errors import CompileError, NotYetMadeError
from flambeau.compile.freezing import freeze
from flambeau.compile.ownership import attributes_of, is_own, state_of
from flambeau.compile.reaching import reaches_trace
from flambeau.compile.source import Page
from flambeau.compile.where import Asked, Item
from flambeau.core.identity import MISSING
from flambeau.core.pytree import OWN_PARTS
from flambeau.core.tensor import Tensor

_NUMBERS = (int, float, complex, np.number)
_PLAIN = {int, float, bool, complex, str, bytes, type(None)}


class Origin(NamedTuple):
    """The parts of a trace that a `Writer` uses.

    Attributes:
        log: The trace's changes to containers.
        keep: Makes a tensor a result of the program; returns its number.
        is_outside: Whether an object existed before the trace.
        holders: The ids of objects whose attributes are set at each call, so they may hold tensors.
        leaves: The leaves of the arguments.
    """

    log: Log
    keep: Callable[[Tensor], int]
    is_outside: Callable[[Any], bool]
    holders: set[int]
    leaves: Sequence[Any]


class Writer:
    """Writes Python code that creates the values which a trace stores.

    In the code, ``t0``, ``t1``... are results of the program, ``c0``, ``c1``... containers from
    outside, and ``leaves`` the leaves of the arguments.

    Args:
        origin: The trace.
        page: The page with all other objects that the code names.
    """

    def __init__(self, origin: Origin, page: Page) -> None:
        self.origin, self.log, self.page = origin, origin.log, page
        #: Lines that create containers and objects, which nothing outside refers to yet.
        self.lines: list[str] = []
        #: The variables of these containers and objects.
        self.created: list[str] = []
        self.watches: dict[Watch, int] = {}
        self._where: Any = None
        #: Whether the value is stored where nothing was before the call.
        self.is_new: bool = False
        self._arguments = {id(each): i for i, each in enumerate(origin.leaves)}
        # The names of objects by their ids, and the objects, held so that the ids stay theirs.
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []
        # Containers and objects that are created, and still to be filled.
        self._empty: deque[tuple[str, Any, Callable[[str, Any], None]]] = deque()
        self._clean: dict[int, Any] = {}
        # The ids of objects that are hashed before they have attributes.
        self._hashed: set[int] = set()

    def write(self, value: Any, where: Any) -> str:
        """The expression for ``value``, which is stored at ``where``, after the lines.

        Raises:
            CompileError: An object in it holds a tensor of the trace.
        """
        self._where = where
        try:
            name = self._name(value)
            self._fill()
        except RecursionError:
            raise CompileError(
                f"the compiled function leaves containers in {where} that are inside each other "
                "too deeply; leave a flat list of their members"
            ) from None
        return name

    def note_key(self, value: Any) -> None:
        """Note that ``value`` becomes the key of a dictionary."""
        self._hashed.update(map(id, making.hashed_in({value})))

    def number_of(self, watch: Watch) -> int:
        """The number of a container from outside."""
        return self.watches.setdefault(watch, len(self.watches))

    def _name(self, obj: Any) -> str:
        if isinstance(obj, Refusing):
            obj = obj.raw
        if type(obj) in _PLAIN:
            is_short = obj is None or obj is True or obj is False
            return repr(obj) if is_short else self.page.name(obj)
        name = self._names.get(id(obj))
        if name is None:
            name = self._names[id(obj)] = self._new_name(obj)
            self._kept.append(obj)
        return name

    def _new_name(self, obj: Any) -> str:
        if isinstance(obj, Tensor) and type(obj) not in OWN_PARTS:
            return f"t{self.origin.keep(obj)}"
        watch = self.log.watch_over(obj)
        if watch is not None:
            return f"c{self.number_of(watch)}"
        if id(obj) in self._arguments:
            return f"leaves[{self._arguments[id(obj)]}]"
        if id(obj) in self.origin.holders:
            return self.page.name(obj)
        is_outside = self.origin.is_outside(obj)
        if making.is_container(obj) and not is_outside and type(obj) is not set:
            return self._container(obj)
        holds_tensors = reaches_trace(obj, self.origin.is_outside, self._clean)
        if is_outside and not holds_tensors:
            return self.page.name(obj)
        if structure.is_plain_dataclass(obj):
            return self._object(obj, holds_tensors)
        if making.has_parts(obj) if not holds_tensors else structure.take_apart(obj) is not None:
            return self._container(obj)
        if holds_tensors:
            self._refuse(obj)
        if type(obj) is set:
            return self._container(obj)
        if making.is_copied(obj):
            return self._variable(f"{self.page.name(copy.copy)}({self.page.name(copy.copy(obj))})")
        if making.has_only_attributes(obj):
            return self._object(obj, holds_tensors)
        if making.cannot_be_made(obj):
            raise CompileError(
                f"the compiled function leaves an object of class {type(obj).__name__} in "
                f"{self._where}, which would be the same one at every call, used up by the first; "
                "leave a list of what it gives"
            )
        return self.page.name(obj)

    def _variable(self, expression: str) -> str:
        name = f"o{len(self.created)}"
        self.created.append(name)
        self.lines.append(f"{name} = {expression}")
        return name

    def _container(self, obj: Any) -> str:
        """A new container: an empty one if it can be filled later."""
        self._hashed.update(map(id, making.hashed_in(obj)))
        cls = type(obj)
        if cls is tuple:
            names = ", ".join([*map(self._name, obj), ""])
            return self._variable(f"({names.rstrip(' ') if len(obj) < 2 else names[:-2]})")
        if cls is set or (cls in KINDS and not state_of(obj)):
            arguments = ""
            if cls is deque:
                arguments = f"(), {obj.maxlen!r}"
            elif hasattr(obj, "default_factory"):
                arguments = self._name(obj.default_factory)
            name = self._variable(f"{self.page.name(cls)}({arguments})")
            self._empty.append((name, obj, self._fill_container))
            return name
        parts = structure.take_apart(obj)
        assert parts is not None
        kind, members = parts
        names = ", ".join(map(self._name, members))
        # Its class may read the members.
        self._fill()
        return self._variable(
            f"{self.page.name(structure.put_together)}({self.page.name(kind)}, [{names}])"
        )

    def _object(self, obj: Any, holds_tensors: bool) -> str:
        """A new object, whose attributes are set later."""
        if id(obj) in self._hashed:
            if holds_tensors:
                self._refuse(obj)
            return self.page.name(obj)
        cls = self.page.name(type(obj))
        name = self._variable(f"{self.page.name(making.empty)}({cls})")
        self._empty.append((name, obj, self._fill_object))
        return name

    def _fill(self) -> None:
        while self._empty:
            name, obj, fill = self._empty.popleft()
            fill(name, obj)

    def _fill_container(self, name: str, obj: Any) -> None:
        if isinstance(obj, dict):
            items = dict.items(obj)
            members = ", ".join(f"{self._name(key)}: {self._name(each)}" for key, each in items)
            self.lines += [f"{name}.update({{{members}}})"] if members else []
        else:
            members = "".join(f"{self._name(each)}, " for each in obj)
            add = "update" if isinstance(obj, set) else "extend"
            self.lines += [f"{name}.{add}(({members}))"] if members else []

    def _fill_object(self, name: str, obj: Any) -> None:
        attributes = attributes_of(obj).items()
        items = ", ".join(f"{key!r}: {self._name(each)}" for key, each in attributes)
        if items:
            self.lines.append(f"{self.page.name(making.fill)}({name}, {{{items}}})")

    def _refuse(self, value: Any) -> None:
        if isinstance(value, Coroutine):
            value.close()
        names = [
            name
            for name, each in attributes_of(value).items()
            if reaches_trace(each, self.origin.is_outside)
        ]
        attribute = f" as its attribute {names[0]!r}" if names and not is_own(type(value)) else ""
        # A first call may make an object for later ones.
        raise (NotYetMadeError if self.is_new else CompileError)(
            f"the compiled function leaves an object of class {type(value).__name__} in "
            f"{self._where}, which would keep a tensor without a value{attribute}. Leave "
            "tensors there, or lists, dictionaries, tuples and dataclasses of them; or register "
            "the class with jax.tree_util.register_pytree_node"
        )


class Keeping:
    """The values that a program stores and returns at each call, as lines of Python.

    Args:
        writer: Writes the lines.
        active: The containers that change.
        assigned: The slots that the function sets, with their values in the trace.
        returned: The result of the function.
        before: Slots, with their values before the trace.

    Attributes:
        making: The lines that create containers and objects.
        created: Their variables.
        changes: For each change of a container, in order, the lines that apply it. A change is
            applied once, and noted in ``done``, whatever interrupts the call.
        setting: The lines that set slots.
        returned: The expression for the result of the function.
        slots: For each container that the lines name, the slots that hold it.
    """

    def __init__(
        self,
        writer: Writer,
        active: list[Watch],
        assigned: list[tuple[Any, Any]],
        returned: Any,
        before: list[tuple[Any, Any]],
    ) -> None:
        empty = {id(slot) for slot, value in before if value is None or value is MISSING}
        self.changes: list[list[str]] = []
        for watch, method, args in writer.log.changes:
            is_item = method == "__setitem__" and isinstance(watch.raw, dict)
            writer.is_new = is_item and not dict.__contains__(watch.raw, args[0])
            self.changes.append([*_replay(writer, watch, method, args)])
        writer.is_new = False
        for watch in active:
            if watch.rewritten:
                slot, content = watch.slots[0], watch.content()
                name, value = f"c{writer.number_of(watch)}", writer.write(content, slot)
                add = "update" if isinstance(watch.raw, dict) else "extend"
                self.changes.append([f"{name}.clear()", f"{name}.{add}({value})", "done.append(0)"])
        self.setting: list[str] = []
        for slot, value in assigned:
            writer.is_new = id(slot) in empty
            self.setting.append(slot.setting(writer.page, writer.write(value, slot)))
        writer.is_new = False
        self.returned: str = writer.write(returned, "its result")
        self.making, self.created = writer.lines, writer.created
        self.slots = [each.slots for each in writer.watches]
        #: Whether values are stored besides the result.
        self.leaves_more: bool = bool(self.changes or self.setting)


def _replay(writer: Writer, watch: Watch, method: str, args: tuple[Any, ...]) -> Iterator[str]:
    """The lines that change a container as the trace has changed it."""
    slot, number = watch.slots[0], writer.number_of(watch)
    if method in ("reach", "__setitem__", "__delitem__"):
        writer.note_key(args[0])
    if method == "reach":
        # A member that is a container, and may be missing.
        inner = writer.number_of(args[1])
        key = writer.write(args[0], slot)
        yield f"found[{inner}] = c{inner} = c{number}.setdefault({key}, c{inner})"
        yield "done.append(0)"
        return
    values = "".join(f"{writer.write(each, slot)}, " for each in args)
    # In one call of C code: no interrupt comes between the change and its note.
    yield f"done.extend({writer.page.name(starmap)}(c{number}.{method}, (({values}),)))"


def counters_in(watch: Watch) -> list[str]:
    """The places in a container of Python numbers that the function reads and replaces.

    A program that followed them would fit no other call.
    """
    if isinstance(watch.raw, dict):
        slots = [Item(watch.slots[0], key) for key in watch.touched]
        return [str(slot) for slot in slots if _counts(watch, slot)]
    depends = any(isinstance(each, Asked) for each in watch.asked) or watch.rewritten
    members = *watch.run("__iter__"), *watch.raw
    counts = any(map(_is_number, members)) and not any(map(_is_more, members))
    return [str(watch.slots[0])] if watch.changed and depends and counts else []


def _counts(watch: Watch, slot: Item) -> bool:
    before = watch.raw.get(slot.key, MISSING)
    now = dict.get(watch.stand_in, slot.key, MISSING)
    is_plain = not (_is_more(before) or _is_more(now))
    if slot not in watch.asked or now is MISSING or not is_plain or freeze(before) == freeze(now):
        return False
    factory = getattr(watch.raw, "default_factory", None)
    if before is MISSING and factory is not None and freeze(factory()) == freeze(now):
        # Only the default was inserted.
        return False
    return _is_number(before) or _is_number(now)


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _is_more(value: Any) -> bool:
    """Whether ``value`` may hold tensors."""
    return value is not MISSING and value is not None and not isinstance(value, (str, *_NUMBERS))
