"""An unpickler that creates only plain data, whatever the pickle contains.

Python's own unpickler calls any function that a pickle names, trusts the sizes that it states, and
computes the hash of arbitrarily nested tuples. This one implements the opcodes that Python's
pickler writes for protocols 2 to 5, and checks each: functions come from a given table, containers
are Python's own, and a `Budget` counts the created objects.

The opcodes are documented in Python's `pickletools`.
"""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO, ClassVar

from flambeau.checkpoint.errors import (
    CheckpointError,
    DamagedFileError,
    LimitExceededError,
    RefusedContentError,
)
from flambeau.checkpoint.limits import Budget
from flambeau.core.values.tensor import Size

__all__ = ["DAMAGE", "NamedFunction", "PlainUnpickler", "Stateful", "set_attributes", "shown"]

_LONGEST_NAME = 1024
# The errors of reading a damaged pickle; errors of other types come from elsewhere.
DAMAGE = (
    AttributeError, EOFError, IndexError, KeyError, OverflowError, RecursionError, TypeError,
    ValueError, struct.error,
)  # fmt: skip
_LATEST_PROTOCOL = 5
_FLOAT = struct.Struct(">d")
_NESTING = frozenset([tuple, frozenset, Size])
# Keys whose hash is cached, or differs if the keys differ.
_CHEAP_KEYS = frozenset([float, bool, type(None)])
_CHEAP_NUMBER = 1 << 60
_CHEAP_TEXT = 256
# Approximate sizes of Python objects in bytes.
_CONTAINER, _MEMBER, _SLOT = 64, 100, 8
_OPCODE_NAMES = {
    value: name
    for name, value in vars(pickle).items()
    if name.isupper() and isinstance(value, bytes) and len(value) == 1
}


class NamedFunction:
    """A function that a pickle may call.

    Args:
        function: Called with the pickle's arguments.
    """

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function: Callable[..., Any] = function

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)


class Stateful:
    """An object whose state a pickle may set."""

    def __setstate__(self, state: Any) -> None:
        raise NotImplementedError


class PlainUnpickler:
    """Reads one pickle; subclasses map its names to objects.

    Args:
        file: Open for reading bytes, at the start of the pickle.
        size: The size of the file in bytes.
        budget: Counts the created objects.
        depth: How deep tuples may be nested.
        place: The description of a byte of the file in messages, with ``{}`` for its number.
    """

    #: The kinds of dict whose items a pickle may set.
    dicts: ClassVar[tuple[type, ...]] = (dict, OrderedDict, Counter)

    def __init__(
        self, file: BinaryIO, size: int, budget: Budget, depth: int, place: str = "byte {}"
    ) -> None:
        self._file = file
        self._size = size
        self.budget = budget
        self._depth = depth
        self._place = place
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        # Tuples that contain tuples, their depth, and their total number of members.
        self._nested: dict[int, tuple[Any, int, int]] = {}
        # How often keys of a container had a hash, for types whose hashes can be made to collide.
        self._meetings: Counter[tuple[int, int]] = Counter()

    def load(self) -> Any:
        """The object that the pickle describes; the file is then at the pickle's end.

        Raises:
            DamagedFileError: The bytes are no pickle.
            RefusedContentError: The pickle has content that is not read.
            LimitExceededError: The content is too large, or tuples are nested too deep.
        """
        code = b""
        read, operations = self._file.read, self._OPERATIONS
        try:
            while code != pickle.STOP:
                code = read(1)
                operations[code](self)
            return self._stack.pop()
        except CheckpointError as error:
            error.at(self._here())
            raise
        except DAMAGE as error:
            place = self._here()
            if isinstance(error, KeyError) and code not in operations:
                raise _unknown(code, place) from None
            name = _OPCODE_NAMES[code]
            raise DamagedFileError(f"its operation {name} fails ({_told(error)})", place) from error

    def find_class(self, module: str, name: str) -> Any:
        """The replacement of a class or function, or RefusedContentError."""
        raise NotImplementedError

    def persistent_load(self, pid: Any) -> Any:
        """The replacement of an object outside of the pickle, or RefusedContentError."""
        raise NotImplementedError

    # Bytes of the pickle

    def _number(self, size: int) -> int:
        """An unsigned number of ``size`` bytes."""
        data = self._file.read(size)
        if len(data) != size:
            raise EOFError("its pickle does not end")
        return int.from_bytes(data, "little")

    def _sized(self, size: int) -> bytes:
        """Bytes preceded by their length, itself of ``size`` bytes."""
        count = self._number(size)
        if count > self._size - self._file.tell():
            raise EOFError(f"{count} bytes are more than follow")
        return self._file.read(count)

    def _line(self) -> str:
        line = self._file.readline(_LONGEST_NAME)
        if not line.endswith(b"\n"):
            raise ValueError("a name does not end")
        return line[:-1].decode()

    def _protocol(self, number: int) -> None:
        if number > _LATEST_PROTOCOL:
            raise ValueError(f"there is no protocol {number}")

    # The stack

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _integer(self, data: bytes) -> None:
        self._stack.append(int.from_bytes(data, "little", signed=True))

    def _text(self, data: bytes) -> None:
        self._stack.append(data.decode("utf-8", "surrogatepass"))

    def _mark(self) -> None:
        self.budget.take(_SLOT)
        self._marks.append(len(self._stack))

    def _marked(self) -> list[Any]:
        """Pop the values above the last mark, and the mark."""
        mark = self._marks.pop()
        found = self._stack[mark:]
        del self._stack[mark:]
        return found

    def _pop(self) -> None:
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self._stack.pop()

    def _remember(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    # Containers

    def _push_new(self, kind: type) -> None:
        self.budget.take(_CONTAINER)
        self._stack.append(kind())

    def _tuple(self, count: int) -> None:
        if count > len(self._stack):
            raise IndexError("the stack is empty")
        items = tuple(self._stack[-count:])
        del self._stack[-count:]
        self._push_tuple(items)

    def _push_tuple(self, items: tuple[Any, ...]) -> None:
        self.budget.take(_CONTAINER)
        self._note_nesting(items)
        self._push(items)

    def _note_nesting(self, items: tuple[Any, ...] | frozenset[Any]) -> None:
        if _NESTING.isdisjoint(map(type, items)):
            return
        extents = [self._extent(each) for each in items]
        depth = 1 + max(depth for depth, _ in extents)
        if depth > self._depth:
            raise LimitExceededError(
                f"tuples are nested more than {self._depth} deep; if you trust the file, give "
                "limits=Limits(depth=...)"
            )
        self._nested[id(items)] = items, depth, sum(weight for _, weight in extents)

    def _extent(self, value: Any) -> tuple[int, int]:
        """The nesting depth of a value, and the number of members in its hash."""
        if type(value) not in _NESTING:
            return 0, 1
        _, depth, weight = self._nested.get(id(value), (None, 1, len(value)))
        return depth, max(weight, 1)

    def _extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise TypeError(f"appends to a {type(target).__name__}")
        target.extend(items)

    def _set_items(self, items: list[Any]) -> None:
        self.fill(self._stack[-1], zip(items[::2], items[1::2], strict=True))

    def fill(self, target: Any, items: Any) -> None:
        """Put pairs of keys and values into a dict."""
        if type(target) not in self.dicts:
            raise TypeError(f"sets items of a {type(target).__name__}")
        for key, value in items:
            if type(key) is not str or len(key) > _CHEAP_TEXT:
                self._check_key(target, key)
            self.budget.take(_MEMBER)
            target[key] = value

    def add(self, target: Any, items: Any) -> None:
        """Put members into a set."""
        if type(target) is not set:
            raise TypeError(f"adds members to a {type(target).__name__}")
        for each in items:
            if type(each) is not str or len(each) > _CHEAP_TEXT:
                self._check_key(target, each)
            self.budget.take(_MEMBER)
            target.add(each)

    def _check_key(self, target: Any, key: Any) -> None:
        """Count the work for a key whose hash is slow or can be made to collide with other keys'.

        Keys with one hash are compared with each other, which without a bound could take hours.
        """
        kind = type(key)
        if kind in _CHEAP_KEYS or (kind is int and -_CHEAP_NUMBER < key < _CHEAP_NUMBER):
            return
        if kind is str or kind is bytes:
            # Equal keys are compared to their end.
            self.budget.take(len(key) // _SLOT)
            return
        work = _SLOT * self._extent(key)[1]
        self.budget.take(work)
        place = id(target), hash(key)
        self._meetings[place] += 1
        self.budget.take(_MEMBER + work * self._meetings[place])

    def _add(self, items: list[Any]) -> None:
        self.add(self._stack[-1], items)

    def frozen(self, items: Any) -> frozenset[Any]:
        """The members as a frozenset, which like a tuple is nested in others."""
        members: set[Any] = set()
        self.add(members, items)
        found = frozenset(members)
        self._note_nesting(found)
        return found

    # Names and calls

    def _name(self, module: Any, name: Any) -> None:
        if type(name) is not str or type(module) is not str:
            raise TypeError("a name is not text")
        self._push(self.find_class(module, name))

    def _call(self) -> None:
        args, function = self._stack.pop(), self._stack.pop()
        if type(args) is not tuple:
            raise TypeError("the arguments of a call are not a tuple")
        self.budget.take(_CONTAINER)
        is_known = type(function) is NamedFunction
        self._push(function(*args) if is_known else self.call(function, args))

    def _new(self) -> None:
        args, cls = self._stack.pop(), self._stack.pop()
        self._push_object(cls, args, {})

    def _new_with_names(self) -> None:
        kwargs, args, cls = self._stack.pop(), self._stack.pop(), self._stack.pop()
        self._push_object(cls, args, kwargs)

    def _push_object(self, cls: Any, args: Any, kwargs: Any) -> None:
        if type(args) is not tuple or type(kwargs) is not dict:
            raise TypeError("the arguments of a class are neither a tuple nor a dict")
        self.budget.take(_CONTAINER)
        self._push(self.make(cls, args, kwargs))

    def _build(self) -> None:
        state, target = self._stack.pop(), self._stack[-1]
        if type(target) is OrderedDict:
            self.set_attributes(target, state)
        elif isinstance(target, Stateful):
            target.__setstate__(state)
        else:
            self.set_state(target, state)

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """The result of a function that is not a `NamedFunction`, or RefusedContentError."""
        raise RefusedContentError(f"it calls a {type(function).__name__}")

    def make(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An object of a class, or RefusedContentError."""
        raise RefusedContentError(f"it makes an object of {shown(cls)}")

    def set_state(self, target: Any, state: Any) -> None:
        """Set the state of an object that is not `Stateful`, or raise RefusedContentError."""
        raise RefusedContentError(f"it sets the state of a {type(target).__name__}")

    def set_attributes(self, target: Any, state: Any) -> None:
        """Set attributes of a dict, or raise RefusedContentError."""
        set_attributes(target, state, self.budget)

    def _here(self) -> str:
        return self._place.format(self._file.tell())

    # By opcode byte.
    _OPERATIONS: ClassVar[dict[bytes, Callable[[PlainUnpickler], object]]] = {
        pickle.PROTO: lambda self: self._protocol(self._number(1)),
        pickle.FRAME: lambda self: self._number(8),
        pickle.STOP: lambda self: None,
        pickle.MARK: _mark,
        pickle.POP: _pop,
        pickle.POP_MARK: lambda self: self._marked(),
        pickle.DUP: lambda self: self._push(self._stack[-1]),
        pickle.BINPUT: lambda self: self._remember(self._number(1)),
        pickle.LONG_BINPUT: lambda self: self._remember(self._number(4)),
        pickle.MEMOIZE: lambda self: self._remember(len(self._memo)),
        pickle.BINGET: lambda self: self._push(self._memo[self._number(1)]),
        pickle.LONG_BINGET: lambda self: self._push(self._memo[self._number(4)]),
        pickle.NONE: lambda self: self._push(None),
        pickle.NEWTRUE: lambda self: self._push(True),
        pickle.NEWFALSE: lambda self: self._push(False),
        pickle.BININT: lambda self: self._integer(self._file.read(4)),
        pickle.BININT1: lambda self: self._push(self._number(1)),
        pickle.BININT2: lambda self: self._push(self._number(2)),
        pickle.LONG1: lambda self: self._integer(self._sized(1)),
        pickle.BINFLOAT: lambda self: self._push(*_FLOAT.unpack(self._file.read(8))),
        pickle.SHORT_BINSTRING: lambda self: self._push(self._sized(1).decode()),
        pickle.BINSTRING: lambda self: self._push(self._sized(4).decode()),
        pickle.SHORT_BINUNICODE: lambda self: self._text(self._sized(1)),
        pickle.BINUNICODE: lambda self: self._text(self._sized(4)),
        pickle.BINUNICODE8: lambda self: self._text(self._sized(8)),
        pickle.SHORT_BINBYTES: lambda self: self._push(self._sized(1)),
        pickle.BINBYTES: lambda self: self._push(self._sized(4)),
        pickle.BINBYTES8: lambda self: self._push(self._sized(8)),
        pickle.BYTEARRAY8: lambda self: self._push(bytearray(self._sized(8))),
        pickle.EMPTY_TUPLE: lambda self: self._push(()),
        pickle.TUPLE1: lambda self: self._tuple(1),
        pickle.TUPLE2: lambda self: self._tuple(2),
        pickle.TUPLE3: lambda self: self._tuple(3),
        pickle.TUPLE: lambda self: self._push_tuple(tuple(self._marked())),
        pickle.EMPTY_LIST: lambda self: self._push_new(list),
        pickle.APPEND: lambda self: self._extend([self._stack.pop()]),
        pickle.APPENDS: lambda self: self._extend(self._marked()),
        pickle.EMPTY_DICT: lambda self: self._push_new(dict),
        pickle.SETITEM: lambda self: self._set_items([self._stack.pop(-2), self._stack.pop()]),
        pickle.SETITEMS: lambda self: self._set_items(self._marked()),
        pickle.EMPTY_SET: lambda self: self._push_new(set),
        pickle.ADDITEMS: lambda self: self._add(self._marked()),
        pickle.FROZENSET: lambda self: self._push(self.frozen(self._marked())),
        pickle.GLOBAL: lambda self: self._name(self._line(), self._line()),
        pickle.STACK_GLOBAL: lambda self: self._name(self._stack.pop(-2), self._stack.pop()),
        pickle.REDUCE: _call,
        pickle.BUILD: _build,
        pickle.NEWOBJ: _new,
        pickle.NEWOBJ_EX: _new_with_names,
        pickle.BINPERSID: lambda self: self._push(self.persistent_load(self._stack.pop())),
    }


def shown(value: Any) -> str:
    """A value in a message, shortened: containers may have unlimited representations."""
    return f"{value!r:.80}" if type(value) in (str, int, bool, float) else type(value).__name__


def set_attributes(target: Any, state: Any, budget: Budget) -> None:
    """Set attributes of an object that its class does not have.

    Raises:
        RefusedContentError: An attribute would shadow a member of the class.
    """
    for name, value in state.items():
        if type(name) is not str or hasattr(type(target), name):
            raise RefusedContentError(
                f"it sets {shown(name)}, a member of {type(target).__name__}, on an object"
            )
        budget.take(_MEMBER)
        vars(target)[name] = value


def _unknown(code: bytes, place: str) -> CheckpointError:
    if not code:
        return DamagedFileError("its pickle does not end", place)
    if code in _OPCODE_NAMES:
        name = _OPCODE_NAMES[code]
        return RefusedContentError(
            f"the pickle's operation {name} is not among those of plain data", place
        )
    return DamagedFileError(f"there is no pickle operation {code!r}", place)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
