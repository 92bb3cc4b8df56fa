"""Containers from outside, as a trace sees them.

During a trace, stand-ins with the same content replace the lists and dictionaries that the traced
function can reach. A stand-in notes questions about the original content, on which the program then
depends, and changes, which the program repeats at each call. The containers themselves never
change during the trace.
"""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from jax.core import Tracer

from flambeau.compile.contents import KINDS
from flambeau.compile.errors import CompileError
from flambeau.compile.ownership import NO_STATE, state_of
from flambeau.compile.places import Member, Outside, Returned
from flambeau.compile.stand_ins import STAND_INS, set_item
from flambeau.compile.where import Asked, Item
from flambeau.core.before import CHANGEABLE, Before
from flambeau.core.identity import MISSING
from flambeau.core.pytree import OWN_PARTS, is_tuple
from flambeau.core.tensor import Tensor

_CONTAINERS = (dict, list, deque, set, tuple)


class Change(NamedTuple):
    """A change of a container.

    Attributes:
        watch: The watch over the container.
        method: The method that was called; ``"reach"`` if a missing member was inserted.
        args: Its arguments, as the traced function gave them.
    """

    watch: Watch
    method: str
    args: tuple[Any, ...]


class Log:
    """The questions that a trace asks of containers from outside, and its changes to them.

    Args:
        before: Remembers their content.
        stand_in: Gives the replacement for any other value.
    """

    def __init__(self, before: Before, stand_in: Callable[[Any], Any]) -> None:
        self.before = before
        self._stand_in = stand_in
        self.watches: dict[int, Watch] = {}
        self.changes: list[Change] = []
        #: Slots whose value is replaced during the trace, with the old value and the new.
        self.replaced: list[tuple[Any, Any, Any]] = []
        # Tuples with containers in them, by id, with their copies that hold stand-ins.
        self.tuples: dict[int, tuple[Any, Any]] = {}
        # Whether a method of Python's own runs, which may call methods of the stand-ins.
        self.inside = False

    def look_at(self, slot: Any, value: Any) -> None:
        """Replace the containers in ``value``, the value of ``slot``, by stand-ins."""
        replaced = self.replace(value, slot)
        if replaced is not value:
            self.replaced.append((slot, value, replaced))
            slot.set(replaced)

    def replace(self, value: Any, slot: Any, parent: Watch | None = None) -> Any:
        """``value``, the value of ``slot``, with stand-ins for the containers in it."""
        if type(value) in KINDS:
            return self.watch(value, slot, parent).stand_in
        if isinstance(value, CHANGEABLE):
            # Of a class without stand-ins: restored if the trace fails.
            self.before.note(value)
            return value
        if is_tuple(value):
            parts = [self.replace(e, Item(slot, i), parent) for i, e in enumerate(value)]
            if any(new is not old for new, old in zip(parts, value, strict=True)):
                if id(value) not in self.tuples:
                    kind = type(value)
                    copied = kind(*parts) if hasattr(kind, "_fields") else kind(parts)
                    self.tuples[id(value)] = value, copied
                # The same copy wherever the tuple is found.
                return self.tuples[id(value)][1]
            return value
        return self._stand_in(value)

    def watch(self, raw: Any, slot: Any, parent: Watch | None = None) -> Watch:
        """The watch over a container, which was found in ``slot``."""
        watch = self.watches.get(id(raw))
        if watch is None:
            watch = self.watches[id(raw)] = Watch(self, raw)
        watch.slots.append(slot)
        if parent is not None:
            watch.parents.append(parent)
        return watch

    def restore(self) -> None:
        """Put the original containers back in place of their stand-ins."""
        for slot, value, replaced in self.replaced:
            if slot.get() is replaced:
                slot.set(value)

    def replace_again(self) -> None:
        """Undo `restore`."""
        for slot, value, replaced in self.replaced:
            if slot.get() is value:
                slot.set(replaced)

    def count(self) -> tuple[int, int]:
        """The number of changes and of rewritten containers so far."""
        return len(self.changes), sum(each.rewritten for each in self.watches.values())

    def refuse_strays(self) -> None:
        """Restore containers that were changed past their stand-ins and hold traced tensors.

        Raises:
            CompileError: There is such a container.
        """
        for watch in self.watches.values():
            if self.before.is_changed(watch.raw) and is_of_trace(watch.raw):
                self.before.put_back(watch.raw)
                raise CompileError(
                    f"the compiled function puts a tensor into {watch.slots[0]} by another way "
                    "than that name, so no later call can repeat it; use the name, or return the "
                    "tensor"
                )

    def flushed(self, known: list[Any]) -> Iterator[tuple[Any, Any]]:
        """The slots whose containers have changed and were then replaced, besides ``known``.

        Their old and new contents may be equal, as after ``self.losses = []``.
        """
        done = {name_of(slot) for slot in known}
        for watch in self.active([]):
            for slot in watch.slots:
                is_settable = isinstance(slot, Member | Outside) and not isinstance(slot, Returned)
                if is_settable and name_of(slot) not in done and slot.get() is not watch.raw:
                    done.add(name_of(slot))
                    yield slot, watch.raw

    def watches_in(self, value: Any) -> list[Watch]:
        """The watches over a container, or over the containers in a tuple."""
        if is_tuple(value):
            return [watch for each in value for watch in self.watches_in(each)]
        watch = self.watch_over(value)
        return [] if watch is None else [watch]

    def watch_over(self, value: Any) -> Watch | None:
        """The watch over a container, given as itself or as its stand-in."""
        is_stand_in = type(value) in STAND_INS.values()
        return value._watch if is_stand_in else self.watches.get(id(value))

    def active(self, more: list[Watch]) -> list[Watch]:
        """The watches over containers that change, their parents and members, and ``more``."""
        waiting = [each.watch for each in self.changes] + more
        waiting += [each for each in self.watches.values() if each.rewritten]
        active: dict[Watch, None] = {}
        while waiting:
            watch = waiting.pop()
            if watch not in active:
                active[watch] = None
                waiting += watch.parents
        for watch in self.watches.values():
            # A parent mostly has an earlier watch than its members.
            if not active.keys().isdisjoint(watch.parents):
                active[watch] = None
        return [each for each in self.watches.values() if each in active]


class Watch:
    """The questions of a trace about one container from outside, and its changes.

    Args:
        log: The log of changes.
        raw: The container.

    Attributes:
        slots: Where the container was found.
        parents: The watches over containers that hold it.
        stand_in: The container that replaces it during the trace.
        asked: The questions about its content, as `Item` and `Asked`.
        known: Whether the whole content was asked for.
        changed: Whether it was changed.
        rewritten: Whether the content at the end replaces the original content.
        touched: The keys that the trace has set or deleted.
        suffix: The number of members that the trace has appended.
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
        """Call Python's own method on the stand-in, without noting questions."""
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
        """The content in a new container of the original's class."""
        self.whole()
        container = copy.copy(self.raw)
        container.clear()
        before, self.log.inside = self.log.inside, True
        try:
            (container.update if isinstance(container, dict) else container.extend)(self.stand_in)
        finally:
            self.log.inside = before
        return container

    def ask(self, fact: Callable[..., Any], *args: Any) -> None:
        """Note that the program depends on a fact about the content."""
        if not self.known:
            self.asked[Asked(self.slots[0], fact, args)] = None

    def item(self, key: Any) -> None:
        """Note that the program depends on the member at ``key``, and replace it by a stand-in."""
        if self.known or key in self.touched:
            return
        slot = Item(self.slots[0], key)
        self.asked[slot] = None
        value = slot.found_in(self.raw)
        replaced = MISSING if value is MISSING else self.log.replace(value, slot, self)
        if replaced is not value:
            self.run("__setitem__", key, replaced)

    def whole(self) -> None:
        """Note that the program depends on the whole content."""
        if self.known:
            return
        if isinstance(self.raw, dict):
            # The keys, in order.
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
        """Note a change that does not depend on the content, and apply it to the stand-in."""
        self.changed = True
        if not self.rewritten:
            self.log.changes.append(Change(self, method, args))
        return self.run(method, *args)

    def rewrite(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Apply a change that depends on the content."""
        self.whole()
        self.changed = self.rewritten = True
        log = self.log
        log.changes = [e for e in log.changes if e.watch is not self or e.method == "reach"]
        return self.run(method, *args, **kwargs)

    def reach(self, key: Any, default: Callable[[], Any], new: Any = None) -> Any:
        """The member of a dictionary at ``key``, or the result of ``default`` if there is none.

        The program does not depend on which it is if the default is an empty container.

        Args:
            key: The key.
            default: Gives the default.
            new: The default of this call, if the caller has it.
        """
        own = self.known or key in self.touched
        fresh = default() if new is None else new
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


def name_of(slot: Any) -> Any:
    """The dictionary and the name of an attribute: the same for all slots that hold it."""
    if isinstance(slot, Member):
        return id(vars(slot.module)), slot.place[1]
    if isinstance(slot, Outside) and slot.key is None and len(slot.attributes) == 1:
        state = state_of(slot.root)
        return (slot if state is NO_STATE else id(state)), slot.attributes[0]
    is_entry = isinstance(slot, Outside) and not slot.attributes
    return (id(slot.root), slot.key) if is_entry else slot


def leaves_in(value: Any, left_out: Iterable[int] = ()) -> list[Any]:
    """The leaves in a container and in the containers inside it.

    A stand-in is a leaf; a tensor that consists of others, as a sparse one does, is a container.

    Args:
        value: The container. Any other object is its own leaf.
        left_out: The ids of containers to leave out.
    """
    waiting, known, leaves = [value], {*left_out}, []
    for each in waiting:
        kind = type(each)
        is_container = issubclass(kind, _CONTAINERS) and kind not in STAND_INS.values()
        if kind in OWN_PARTS and issubclass(kind, Tensor):
            waiting += OWN_PARTS[kind].take_apart(each)[0]
        elif not is_container or (kind in OWN_PARTS and issubclass(kind, tuple)):
            leaves.append(each)
        elif id(each) not in known:
            known.add(id(each))
            if issubclass(kind, dict):
                waiting += dict.values(each)
            else:
                # By tuple's own method: a subclass may define another `__len__`.
                waiting += tuple.__iter__(each) if issubclass(kind, tuple) else each
    return leaves


def is_of_trace(value: Any) -> bool:
    """Whether ``value`` is, or holds in containers, a stand-in or a traced tensor."""
    return any(
        type(each) in STAND_INS.values()
        or isinstance(each._cell.array if isinstance(each, Tensor) else each, Tracer)
        for each in leaves_in(value)
    )


def _stand_in(raw: Any, watch: Watch) -> Any:
    """The stand-in for ``raw``."""
    kind: Any = type(raw)
    stand_in = kind.__new__(STAND_INS[kind])
    stand_in._watch = watch
    watch.stand_in = stand_in
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
    return stand_in
