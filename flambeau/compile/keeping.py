"""What a program puts into places outside, and gives back, at each call.

A trace finds out which values its function leaves behind, in containers and attributes, and what it
returns. These are pickled, with references in place of what is not taken apart: to the tensors of a
call, which are results of its program; to containers that stand outside; and to what never changes.
Each call unpickles them with its own tensors.
"""

from __future__ import annotations

import io
import operator
import pickle
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from flambeau.compile import structure
from flambeau.compile.asking import ArgumentAttribute
from flambeau.compile.containers import Log, Watch, is_of_trace, leaves_in
from flambeau.compile.errors import CompileError
from flambeau.compile.guard import freeze
from flambeau.compile.ownership import attributes_of
from flambeau.compile.places import MISSING
from flambeau.compile.slots import KINDS, Asked, ItemSlot
from flambeau.core.pytree import OWN_PARTS, is_tuple
from flambeau.core.tensor import Tensor

_NUMBERS = (int, float, complex, np.number)


class Reference(NamedTuple):
    """What is written down in place of something that is not taken apart.

    Attributes:
        kind: ``"result"``, ``"container"`` or ``"constant"``.
        value: The number of the result or container; the constant.
    """

    kind: str
    value: Any


class Writer(pickle.Pickler):
    """Writes down what a trace leaves behind.

    Args:
        log: What it has changed in containers.
        keep: Makes a tensor a result of the program, and gives the number of that.
        holders: The ids of objects that may hold tensors, since their attributes are set anew.
    """

    def __init__(self, log: Log, keep: Callable[[Tensor], int], holders: set[int]) -> None:
        self.file = io.BytesIO()
        super().__init__(self.file, pickle.HIGHEST_PROTOCOL)
        self.log = log
        self.keep = keep
        self.holders = holders
        self.watches: dict[Watch, int] = {}
        self.references: list[Reference] = []
        #: Where Python numbers are left.
        self.numbers_in: dict[str, None] = {}
        self._where: Any = None

    def write(self, value: Any, where: Any) -> None:
        """Write down ``value``, which is left at ``where``.

        Raises:
            CompileError: An object in it keeps a tensor of the trace.
        """
        self._where = where
        self.dump(value)

    def note_numbers(self, value: Any, where: Any) -> None:
        """Note that ``value`` is left at ``where``, if there are Python numbers in it."""
        if any(map(_is_number, leaves_in(value))):
            self.numbers_in[str(where)] = None

    def number_of(self, watch: Watch) -> int:
        """The number of a container from outside."""
        return self.watches.setdefault(watch, len(self.watches))

    def persistent_id(self, obj: Any) -> int | None:
        """The number of a reference, for what is not taken apart; see `pickle.Pickler`."""
        watch = self.log.watch_over(obj)
        if isinstance(obj, Tensor) and type(obj) not in OWN_PARTS:
            reference = Reference("result", self.keep(obj))
        elif watch is not None:
            reference = Reference("container", self.number_of(watch))
        elif id(obj) not in self.holders and _is_taken_apart(obj):
            return None
        else:
            self._check(obj)
            reference = Reference("constant", obj)
        self.references.append(reference)
        return len(self.references) - 1

    def reducer_override(self, obj: Any) -> Any:
        """How to put together what is no container of Python's; see `pickle.Pickler`."""
        if type(obj) in KINDS or is_tuple(obj):
            return NotImplemented
        found = _parts_of(obj)
        assert found is not None
        return structure.put_together, found

    def _check(self, value: Any) -> None:
        attributes = {} if id(value) in self.holders else attributes_of(value)
        names = [name for name, each in attributes.items() if is_of_trace(each)]
        if names or is_of_trace(value):
            attribute = f" as its attribute {names[0]!r}" if names else ""
            raise CompileError(
                f"the compiled function leaves an object of class {type(value).__name__} in "
                f"{self._where}, which would keep a tensor without a value{attribute}. Leave "
                "tensors there, or lists, dictionaries, tuples and dataclasses of them; or tell "
                "JAX what the class holds, as jax.tree_util.register_pytree_node does"
            )


def _parts_of(value: Any) -> tuple[structure.Kind, list[Any]] | None:
    return structure.take_apart(value) or structure.fields_of(value)


def _is_taken_apart(value: Any) -> bool:
    if type(value) in KINDS or is_tuple(value):
        return not hasattr(value, "numel")
    return _holds_made(value, ())


def _holds_made(value: Any, inside: tuple[int, ...]) -> bool:
    """Whether something in a container that is none of Python's own belongs to the trace.

    Args:
        value: The container, an object of a dataclass, or any other object.
        inside: The ids of the containers that it was found in.
    """
    found = None if id(value) in inside else _parts_of(value)
    return found is not None and any(
        is_of_trace(leaf) or _holds_made(leaf, (*inside, id(value)))
        for member in found[1]
        for leaf in leaves_in(member)
    )


class Reader(pickle.Unpickler):
    """Makes again, for one call, what a `Writer` has written."""

    references: list[Reference]
    results: list[Any]
    containers: list[Any]

    def persistent_load(self, pid: int) -> Any:
        """What a reference refers to; see `pickle.Unpickler`."""
        kind, value = self.references[pid]
        if kind == "constant":
            return value
        return (self.results if kind == "result" else self.containers)[value]


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

    def carry_out(
        self,
        containers: list[Any],
        results: list[Any],
        leaves: Sequence[Any],
        done: list[Any] | None = None,
    ) -> Any:
        """Leave behind what a call leaves behind, and give what it returns.

        Args:
            containers: What `find` gave before the call.
            results: The results of the program.
            leaves: The leaves of the arguments.
            done: Has an element for each change of a container that was made before an exception
                interrupted this; they are not made again.
        """
        done = [] if done is None else done
        reader = Reader(io.BytesIO(self.written))
        reader.references, reader.results = self.references, results
        reader.containers = containers
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
        return reader.load()


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
