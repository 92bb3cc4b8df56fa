"""Containers from outside, as a trace sees them.

While a trace lasts, stand-ins of subclasses with the same content take the place of the lists and
dictionaries that the traced function can reach. A stand-in notes questions about the
original content, on which the program then depends, and changes, which the program repeats at each
call. The containers themselves stay as they are, whatever happens during the trace.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from jax.core import Tracer

from flambeau.compile.contents import KINDS
from flambeau.compile.errors import CompileError
from flambeau.compile.stand_ins import STAND_INS, set_item
from flambeau.compile.where import Asked, Item
from flambeau.core.before import Before
from flambeau.core.identity import MISSING
from flambeau.core.pytree import OWN_PARTS, is_tuple
from flambeau.core.tensor import Tensor

_CONTAINERS = (dict, list, deque, set, tuple)


class Change(NamedTuple):
    """A change of a container.

    Attributes:
        watch: Which one.
        method: The method that was called; ``"reach"`` if a missing member was made.
        args: Its arguments, as the traced function gave them.
    """

    watch: Watch
    method: str
    args: tuple[Any, ...]


class Log:
    """The questions that a trace asks of containers from outside, and its changes to them.

    Args:
        before: Remembers what they held.
    """

    def __init__(self, before: Before) -> None:
        self.before = before
        self.watches: dict[int, Watch] = {}
        self.changes: list[Change] = []
        #: Slots that hold something else while the trace lasts: what they held, and what they hold.
        self.replaced: list[tuple[Any, Any, Any]] = []
        # Tuples with containers in them, by id, with those that have stand-ins in them.
        self.tuples: dict[int, tuple[Any, Any]] = {}
        # Whether Python's own methods are running, which may call those of the stand-ins.
        self.inside = False

    def look_at(self, slot: Any, value: Any) -> None:
        """Let stand-ins take the place of the containers in ``value``, which stands in ``slot``."""
        replaced = self.replace(value, slot)
        if replaced is not value:
            self.replaced.append((slot, value, replaced))
            slot.set(replaced)

    def replace(self, value: Any, slot: Any, parent: Watch | None = None) -> Any:
        """``value``, which stands in ``slot``, with stand-ins for the containers in it."""
        if type(value) in KINDS:
            return self.watch(value, slot, parent).stand_in
        if is_tuple(value):
            parts = [self.replace(e, Item(slot, i), parent) for i, e in enumerate(value)]
            if any(new is not old for new, old in zip(parts, value, strict=True)):
                if id(value) not in self.tuples:
                    kind = type(value)
                    made = kind(*parts) if hasattr(kind, "_fields") else kind(parts)
                    self.tuples[id(value)] = value, made
                # The same object wherever the tuple stands.
                return self.tuples[id(value)][1]
        return value

    def watch(self, raw: Any, slot: Any, parent: Watch | None = None) -> Watch:
        """The watch over a container, which stands in ``slot`` as well."""
        found = self.watches.get(id(raw))
        if found is None:
            found = self.watches[id(raw)] = Watch(self, raw)
        found.slots.append(slot)
        if parent is not None:
            found.parents.append(parent)
        return found

    def restore(self) -> None:
        """Put back the containers that stand-ins have replaced."""
        for slot, value, replaced in self.replaced:
            if slot.get() is replaced:
                slot.set(value)

    def replace_again(self) -> None:
        """Undo `restore`."""
        for slot, value, replaced in self.replaced:
            if slot.get() is value:
                slot.set(replaced)

    def count(self) -> tuple[int, int]:
        """How much has been changed so far."""
        return len(self.changes), sum(each.rewritten for each in self.watches.values())

    def refuse_strays(self) -> None:
        """Fail if a container was changed otherwise than by its stand-in, and put it back.

        Raises:
            CompileError: It has got a tensor of the trace.
        """
        for watch in self.watches.values():
            if self.before.is_changed(watch.raw) and is_of_trace(watch.raw):
                self.before.put_back(watch.raw)
                raise CompileError(
                    f"the compiled function puts a tensor into {watch.slots[0]} by another way "
                    "than that name, so that it cannot be repeated at each call; use the name, or "
                    "return the tensor"
                )

    def watches_in(self, value: Any) -> list[Watch]:
        """The watches over a container, or over those in a tuple."""
        if is_tuple(value):
            return [watch for each in value for watch in self.watches_in(each)]
        found = self.watch_over(value)
        return [] if found is None else [found]

    def watch_over(self, value: Any) -> Watch | None:
        """The watch over a container, which may also be given as its stand-in."""
        is_stand_in = type(value) in STAND_INS.values()
        return value._watch if is_stand_in else self.watches.get(id(value))

    def active(self, more: list[Watch]) -> list[Watch]:
        """The watches over containers that change, their parents and members, and ``more``."""
        waiting = [each.watch for each in self.changes] + more
        waiting += [each for each in self.watches.values() if each.rewritten]
        found: dict[Watch, None] = {}
        while waiting:
            watch = waiting.pop()
            if watch not in found:
                found[watch] = None
                waiting += watch.parents
        for watch in self.watches.values():
            # Those inside come later than what they are in, but for those met in two ways.
            if not found.keys().isdisjoint(watch.parents):
                found[watch] = None
        return [each for each in self.watches.values() if each in found]


class Watch:
    """One container from outside, as a trace has asked and changed it.

    Args:
        log: Where changes are noted.
        raw: The container.

    Attributes:
        slots: Where it stands.
        parents: The watches over containers that it is in.
        stand_in: What takes its place.
        asked: The questions about its content, as `Item` and `Asked`.
        known: Whether nothing that is asked from now on needs noting.
        changed: Whether it was changed.
        rewritten: Whether its content at the end replaces the original one.
        touched: The keys that the trace has set or deleted.
        suffix: How many members at the end are the trace's own.
    """

    def __init__(self, log: Log, raw: Any) -> None:
        self.log = log
        self.raw = raw
        log.before.note(raw)
        self.slots: list[Any] = []
        self.parents: list[Watch] = []
        self.asked: dict[Any, None] = {}
        self.known = self.changed = self.rewritten = False
        self.touched: set[Any] = set()
        self.suffix = 0
        self.kind = type(raw)
        self.stand_in = _stand_in(raw, self)

    def run(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call Python's own method on the stand-in, which notes nothing."""
        before, self.log.inside = self.log.inside, True
        try:
            return getattr(self.kind, method)(self.stand_in, *args, **kwargs)
        finally:
            self.log.inside = before

    def content(self) -> Any:
        """The content at the end, as a list or a dictionary."""
        is_dictionary = isinstance(self.raw, dict)
        return dict(self.run("items")) if is_dictionary else [*self.run("__iter__")]

    def plain(self) -> Any:
        """The content as a container of its own."""
        self.whole()
        made = copy.copy(self.raw)
        made.clear()
        before, self.log.inside = self.log.inside, True
        try:
            (made.update if isinstance(made, dict) else made.extend)(self.stand_in)
        finally:
            self.log.inside = before
        return made

    def ask(self, fact: Callable[..., Any], *args: Any) -> None:
        """Note that a fact about the content matters."""
        if not self.known:
            self.asked[Asked(self.slots[0], fact, args)] = None

    def item(self, key: Any) -> None:
        """Note that the member at ``key`` matters, and let a stand-in take its place."""
        if self.known or key in self.touched:
            return
        slot = Item(self.slots[0], key)
        self.asked[slot] = None
        value = slot.found_in(self.raw)
        replaced = MISSING if value is MISSING else self.log.replace(value, slot, self)
        if replaced is not value:
            self.run("__setitem__", key, replaced)

    def whole(self) -> None:
        """Note that all of the content matters."""
        if self.known:
            return
        if isinstance(self.raw, dict):
            # Its keys, in order.
            self.ask(tuple)
            for key in self.raw:
                self.item(key)
            self.known = True
            return
        self.ask(len)
        replaced: dict[int, Any] = {}
        for i, value in enumerate(self.raw):
            slot = Item(self.slots[0], i)
            self.asked[slot] = None
            replaced[id(value)] = self.log.replace(value, slot, self)
        self.known = True
        for i, value in enumerate([*self.run("__iter__")]):
            if replaced.get(id(value), value) is not value:
                self.run("__setitem__", i, replaced[id(value)])

    def change(self, method: str, *args: Any) -> Any:
        """Note a change that does not depend on the content, and make it in the stand-in."""
        self.changed = True
        if not self.rewritten:
            self.log.changes.append(Change(self, method, args))
        return self.run(method, *args)

    def rewrite(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Make a change that depends on the content."""
        self.whole()
        self.changed = self.rewritten = True
        log = self.log
        log.changes = [e for e in log.changes if e.watch is not self or e.method == "reach"]
        return self.run(method, *args, **kwargs)

    def reach(self, key: Any, default: Callable[[], Any], made: Any = None) -> Any:
        """The member of a dictionary at ``key``, made by ``default`` if there is none.

        Whether there is one does not matter, if the default is an empty container.

        Args:
            made: What ``default`` has made for this call.
        """
        own = self.known or key in self.touched
        fresh = default() if made is None else made
        value = dict.get(self.stand_in, key, MISSING)
        is_empty = type(fresh) in KINDS and not fresh
        if not own and is_empty and (value is MISSING or type(value) is type(fresh)):
            slot = Item(self.slots[0], key, default)
            self.asked[slot] = None
            inner = self.log.watch(fresh if value is MISSING else value, slot, self)
            self.touched.add(key)
            self.log.changes.append(Change(self, "reach", (key, inner)))
            self.run("__setitem__", key, inner.stand_in)
            return inner.stand_in
        self.item(key)
        if value is MISSING:
            set_item(self.stand_in, key, fresh)
        return dict.get(self.stand_in, key)


def leaves_in(value: Any, left_out: Iterable[int] = ()) -> list[Any]:
    """The leaves of a container and those in it; any other object, or a stand-in, is its own leaf.

    Tensors that consist of others, as sparse ones do, are containers of these.

    Args:
        value: The container.
        left_out: The ids of containers that are not looked into.
    """
    waiting, known, found = [value], {*left_out}, []
    for each in waiting:
        kind = type(each)
        is_container = issubclass(kind, _CONTAINERS) and kind not in STAND_INS.values()
        if kind in OWN_PARTS and issubclass(kind, Tensor):
            waiting += OWN_PARTS[kind].take_apart(each)[0]
        elif not is_container or (kind in OWN_PARTS and issubclass(kind, tuple)):
            found.append(each)
        elif id(each) not in known:
            known.add(id(each))
            if issubclass(kind, dict):
                waiting += dict.values(each)
            else:
                # Past the methods of a tuple's class: its `__len__` may mean something else.
                waiting += tuple.__iter__(each) if issubclass(kind, tuple) else each
    return found


def is_of_trace(value: Any) -> bool:
    """Whether ``value`` is, or holds in containers, something that only belongs to a trace."""
    return any(
        type(each) in STAND_INS.values()
        or isinstance(each._cell.array if isinstance(each, Tensor) else each, Tracer)
        for each in leaves_in(value)
    )


def _stand_in(raw: Any, watch: Watch) -> Any:
    """What takes the place of ``raw`` while a trace lasts."""
    kind: Any = type(raw)
    made = kind.__new__(STAND_INS[kind])
    made._watch = watch
    watch.stand_in = made
    if kind is defaultdict:
        watch.run("__init__", raw.default_factory)
    elif kind is deque:
        watch.run("__init__", (), raw.maxlen)
    elif kind is OrderedDict:
        watch.run("__init__")
    if isinstance(raw, dict):
        for key, value in raw.items():
            watch.run("__setitem__", key, value)
    else:
        watch.run("extend", raw)
    return made
