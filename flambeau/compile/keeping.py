"""What a program puts into places outside, and gives back, at each call.

A trace finds out which values its function leaves behind, in containers and attributes, and what it
returns. These are pickled, with references in place of what is not taken apart: to the tensors of a
call, which are results of its program; to containers that stand outside; and to what never changes.
Each call unpickles them with its own tensors.
"""

from __future__ import annotations

import copy
import io
import operator
import pickle
from collections.abc import Callable, Coroutine, Sequence
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from flambeau.compile import making, structure
from flambeau.compile.asking import ArgumentAttribute
from flambeau.compile.containers import Log, Watch, leaves_in
from flambeau.compile.errors import CompileError
from flambeau.compile.guard import freeze
from flambeau.compile.ownership import attributes_of
from flambeau.compile.places import MISSING
from flambeau.compile.reaching import reaches_trace
from flambeau.compile.slots import Asked, ItemSlot
from flambeau.core.pytree import OWN_PARTS
from flambeau.core.tensor import Tensor

_NUMBERS = (int, float, complex, np.number)
_PLAIN = {int, float, bool, complex, str, bytes, type(None)}


class Reference(NamedTuple):
    """What is written down in place of something that is not taken apart.

    Attributes:
        kind: ``"result"``, ``"container"``, ``"argument"``, ``"made"``, ``"copy"`` or
            ``"constant"``.
        value: The number of the result, container, argument, or object that is made; what is
            copied; the constant.
    """

    kind: str
    value: Any


class Origin(NamedTuple):
    """What a `Writer` asks of the trace.

    Attributes:
        log: What it has changed in containers.
        keep: Makes a tensor a result of the program, and gives the number of that.
        is_outside: Whether an object was there before.
        holders: The ids of objects that may hold tensors, since their attributes are set at each
            call.
        leaves: The leaves of the arguments.
    """

    log: Log
    keep: Callable[[Tensor], int]
    is_outside: Callable[[Any], bool]
    holders: set[int]
    leaves: Sequence[Any]


class Writer(pickle.Pickler):
    """Writes down what a trace leaves behind.

    Args:
        origin: The trace.
    """

    def __init__(self, origin: Origin) -> None:
        self.file = io.BytesIO()
        super().__init__(self.file, pickle.HIGHEST_PROTOCOL)
        self.origin = origin
        self.log = origin.log
        self.watches: dict[Watch, int] = {}
        self.references: list[Reference] = []
        #: Where Python numbers are left.
        self.numbers_in: dict[str, None] = {}
        #: The objects that each call makes.
        self.made: list[Any] = []
        self._where: Any = None
        self._arguments = {id(each): i for i, each in enumerate(origin.leaves)}
        # The numbers of references, by the ids of objects, which the writer keeps.
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        self._clean: dict[int, Any] = {}
        # The ids of objects that are asked for their hash before they have attributes.
        self._hashed: set[int] = set()

    def write(self, value: Any, where: Any) -> None:
        """Write down ``value``, which is left at ``where``.

        Raises:
            CompileError: An object in it keeps a tensor of the trace.
        """
        self._where = where
        try:
            self.dump(value)
        except RecursionError:
            raise CompileError(
                f"the compiled function leaves containers in {where} that are inside each other "
                "too deeply; leave a list of what is in them"
            ) from None

    def write_attributes(self) -> None:
        """Write down the attributes of the objects that each call makes."""
        for each in self.made:
            self.write(attributes_of(each), self._where)

    def note_key(self, value: Any) -> None:
        """Note that ``value`` is to be the key of a dictionary."""
        self._hashed.update(map(id, making.hashed_in({value})))

    def note_numbers(self, value: Any, where: Any) -> None:
        """Note that ``value`` is left at ``where``, if there are Python numbers in it."""
        if any(map(_is_number, leaves_in(value))):
            self.numbers_in[str(where)] = None

    def number_of(self, watch: Watch) -> int:
        """The number of a container from outside."""
        return self.watches.setdefault(watch, len(self.watches))

    def persistent_id(self, obj: Any) -> int | None:
        """The number of a reference, for what is not taken apart; see `pickle.Pickler`."""
        number = self._numbers.get(id(obj))
        if number is not None:
            return number
        reference = self._reference(obj)
        if reference is None:
            self._hashed.update(map(id, making.hashed_in(obj)))
            return None
        self.references.append(reference)
        if type(obj) not in _PLAIN:
            self._numbers[id(obj)] = len(self.references) - 1
            self._kept.append(obj)
        return len(self.references) - 1

    def _reference(self, obj: Any) -> Reference | None:
        """What stands for ``obj``; ``None`` if it is taken apart."""
        if type(obj) in _PLAIN:
            return Reference("constant", obj)
        if isinstance(obj, Tensor) and type(obj) not in OWN_PARTS:
            return Reference("result", self.origin.keep(obj))
        watch = self.log.watch_over(obj)
        if watch is not None:
            return Reference("container", self.number_of(watch))
        if id(obj) in self._arguments:
            return Reference("argument", self._arguments[id(obj)])
        if id(obj) in self.origin.holders:
            return Reference("constant", obj)
        is_outside = self.origin.is_outside(obj)
        if making.is_container(obj) and not is_outside and type(obj) is not set:
            return None
        holds_tensors = reaches_trace(obj, self.origin.is_outside, self._clean)
        if is_outside and not holds_tensors:
            return Reference("constant", obj)
        if making.has_fields(obj):
            return self._made(obj, holds_tensors)
        if making.has_parts(obj) if not holds_tensors else structure.take_apart(obj) is not None:
            return None
        if holds_tensors:
            self._refuse(obj)
        if type(obj) is set:
            return None
        if making.is_copied(obj):
            return Reference("copy", copy.copy(obj))
        if making.has_only_attributes(obj):
            return self._made(obj, holds_tensors)
        if making.cannot_be_made(obj):
            raise CompileError(
                f"the compiled function leaves an object of class {type(obj).__name__} in "
                f"{self._where}, which would be the same one at every call, used up by the first; "
                "leave a list of what it gives"
            )
        return Reference("constant", obj)

    def _made(self, obj: Any, holds_tensors: bool) -> Reference:
        if id(obj) in self._hashed:
            if holds_tensors:
                self._refuse(obj)
            return Reference("constant", obj)
        self.made.append(obj)
        return Reference("made", len(self.made) - 1)

    def reducer_override(self, obj: Any) -> Any:
        """How to put together what is no container of Python's; see `pickle.Pickler`."""
        if making.is_container(obj):
            return NotImplemented
        found = structure.take_apart(obj)
        assert found is not None
        return structure.put_together, found

    def _refuse(self, value: Any) -> None:
        if isinstance(value, Coroutine):
            # Nobody will wait for it.
            value.close()
        names = [
            name
            for name, each in attributes_of(value).items()
            if reaches_trace(each, self.origin.is_outside)
        ]
        attribute = f" as its attribute {names[0]!r}" if names else ""
        raise CompileError(
            f"the compiled function leaves an object of class {type(value).__name__} in "
            f"{self._where}, which would keep a tensor without a value{attribute}. Leave "
            "tensors there, or lists, dictionaries, tuples and dataclasses of them; or tell "
            "JAX what the class holds, as jax.tree_util.register_pytree_node does"
        )


class Reader(pickle.Unpickler):
    """Makes again, for one call, what a `Writer` has written."""

    references: list[Reference]
    results: list[Any]
    containers: list[Any]
    leaves: Sequence[Any]
    made: list[Any]
    copies: dict[int, Any] | None = None

    def persistent_load(self, pid: int) -> Any:
        """What a reference refers to; see `pickle.Unpickler`."""
        kind, value = self.references[pid]
        if kind == "constant":
            return value
        if kind == "result":
            return self.results[value]
        if kind == "container":
            return self.containers[value]
        if kind == "copy":
            return self._copy(pid, value)
        return (self.leaves if kind == "argument" else self.made)[value]

    def _copy(self, pid: int, value: Any) -> Any:
        if self.copies is None:
            self.copies = {}
        if pid not in self.copies:
            self.copies[pid] = copy.copy(value)
        return self.copies[pid]


class Replay(NamedTuple):
    """A change of a container, to be made at each call, with arguments that are written down.

    Attributes:
        number: Of the container.
        method: What to call; ``"rewrite"`` to replace all members, ``"reach"`` if a member is
            a container that may have to be made.
        inner: The number of that.
    """

    number: int
    method: str
    inner: int = -1


class Keeping:
    """What a program leaves behind and returns at each call.

    Args:
        writer: Where that is written down.
        active: The containers that change.
        assigned: The slots that it puts values into, with those of the trace.
        returned: What the function has returned.
    """

    def __init__(
        self, writer: Writer, active: list[Watch], assigned: list[tuple[Any, Any]], returned: Any
    ) -> None:
        self.replays: list[Replay] = []
        for watch, method, args in writer.log.changes:
            slot = watch.slots[0]
            inner = writer.number_of(args[1]) if method == "reach" else -1
            self.replays.append(Replay(writer.number_of(watch), method, inner))
            if method not in ("reach", "__delitem__"):
                writer.note_numbers(args[-1:], slot)
            if method in ("reach", "__setitem__", "__delitem__"):
                writer.note_key(args[0])
            writer.write(args[:1] if method == "reach" else args, slot)
        for watch in active:
            if watch.rewritten:
                slot, content = watch.slots[0], watch.content()
                self.replays.append(Replay(writer.number_of(watch), "rewrite"))
                writer.note_numbers(content, slot)
                writer.write((content,), slot)
        for slot, value in assigned:
            writer.note_numbers(value, slot)
            writer.write(value, slot)
        #: Whether something is left behind besides what is returned.
        self.leaves_more = bool(self.replays or assigned)
        writer.write(returned, "its result")
        writer.write_attributes()
        #: The classes of the objects that each call makes.
        self.made = [type(each) for each in writer.made]
        self.assigned = [slot for slot, _ in assigned]
        self.slots = [each.slots for each in writer.watches]
        self.references = writer.references
        self.written = writer.file.getvalue()

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

    def begin(self) -> list[Any]:
        """The objects that a call makes, without attributes."""
        return [*map(making.empty, self.made)]

    def carry_out(
        self,
        containers: list[Any],
        results: list[Any],
        leaves: Sequence[Any],
        done: list[Any] | None = None,
        made: list[Any] | None = None,
    ) -> Any:
        """Leave behind what a call leaves behind, and give what it returns.

        Args:
            containers: What `find` gave before the call.
            results: The results of the program.
            leaves: The leaves of the arguments.
            done: Has an element for each change of a container that was made before an exception
                interrupted this; they are not made again.
            made: What `begin` gave, if an exception may interrupt this.
        """
        done = [] if done is None else done
        reader = Reader(io.BytesIO(self.written))
        reader.references, reader.results = self.references, results
        reader.containers, reader.leaves = containers, leaves
        if self.made:
            reader.made = self.begin() if made is None else made
        for i, (number, method, inner) in enumerate(self.replays):
            container, args = containers[number], reader.load()
            if i < len(done):
                continue
            if method == "rewrite":
                container.clear()
                (container.update if isinstance(container, dict) else container.extend)(*args)
                done.append(None)
            elif method == "reach":
                containers[inner] = container.setdefault(*args, containers[inner])
                done.append(None)
            else:
                # Python does not interrupt between the change and its note.
                done.extend(starmap(getattr(container, method), (args,)))
        for slot in self.assigned:
            value = reader.load()
            if isinstance(slot, ArgumentAttribute):
                slot.set_in(leaves, value)
            else:
                slot.set(value)
        returned = reader.load()
        if self.made:
            for each in reader.made:
                making.fill(each, reader.load())
        return returned


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
    is_plain = not (_is_more(before) or _is_more(now))
    if not (asked and now is not MISSING and is_plain and freeze(before) != freeze(now)):
        return False
    factory = getattr(watch.raw, "default_factory", None)
    if before is MISSING and factory is not None and freeze(factory()) == freeze(now):
        # The default was put there, and nothing counted.
        return False
    return _is_number(before) or _is_number(now)


def _drop_key(watch: Watch, log: Log, key: Any) -> ItemSlot:
    slot = ItemSlot(watch.slots[0], key)
    log.changes = [
        each for each in log.changes
        if each.watch is not watch or each.method != "__setitem__" or each.args[0] != key
    ]  # fmt: skip
    watch.asked.pop(slot)
    watch.asked.pop(Asked(watch.slots[0], operator.contains, (key,)), None)
    watch.raw[key] = dict.get(watch.stand_in, key)
    return slot


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _is_more(value: Any) -> bool:
    """Whether ``value`` may hold tensors."""
    return value is not MISSING and value is not None and not isinstance(value, (str, *_NUMBERS))
