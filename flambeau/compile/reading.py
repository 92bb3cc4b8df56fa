"""What code reads: the names that it takes from outside, what it asks of them, and what it calls.

The bytecode is followed with *paths* on the stack in place of values: where each value comes from,
as far as that can be told. What cannot be told has no path, and is not looked at further.
"""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Mapping
from types import CodeType
from typing import Any, NamedTuple

#: A step from a container to whatever is in it.
ITEM = "[]"
#: A step from something that is called to what it gives.
RESULT = "()"

_METHOD_BIT = sys.version_info >= (3, 12)
# What gives its arguments, or what is in them.
_PASSED_ON = {"dict", "enumerate", "iter", "list", "reversed", "sorted", "tuple", "vars", "zip"}
# Methods of containers, by whether they give what is in them, or something with the same in it.
_GIVE_ITEMS = ("get", "pop", "setdefault")
_OF_CONTAINERS = (*_GIVE_ITEMS, "copy", "items", "values")
# What takes from the stack, and leaves what is below as it is.
_TAKES = (
    "POP_", "STORE_", "DELETE_", "RETURN_", "RAISE_", "END_", "LIST_APPEND", "LIST_EXTEND",
    "SET_ADD", "SET_UPDATE", "MAP_ADD", "DICT_MERGE", "DICT_UPDATE",
)  # fmt: skip
_NOTHING = (
    "CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "JUMP_BACKWARD", "JUMP_FORWARD", "MAKE_CELL", "NOP",
    "NOT_TAKEN", "PRECALL", "RESUME",
)  # fmt: skip
_LEAVES = ("JUMP_FORWARD", "JUMP_BACKWARD", "RETURN_", "RAISE_", "RERAISE")


class Path(NamedTuple):
    """Where a value comes from.

    Attributes:
        kind: ``"global"``, ``"closure"``, ``"local"`` (a parameter), ``"import"``, ``"super"``;
            or ``"constant"``, ``"code"``, ``"slice"`` and ``"null"``, which begin no way.
        name: The name; of a constant, its value.
        steps: Attributes, `ITEM` and `RESULT`, which lead on from there.
    """

    kind: str
    name: Any
    steps: tuple[str, ...] = ()


Value = frozenset[Path]
_UNKNOWN: Value = frozenset()
_NULL: Value = frozenset({Path("null", None)})
_SLICE: Value = frozenset({Path("slice", None)})


class Call(NamedTuple):
    """A call.

    Attributes:
        callee: Where what is called comes from.
        args: The same of each argument.
        keywords: The names of the last of them.
        passes_on: Whether arguments are unpacked, such as those that the caller was called with.
    """

    callee: Path
    args: tuple[Value, ...]
    keywords: tuple[str, ...] = ()
    passes_on: bool = False


class Reading(NamedTuple):
    """What code reads and calls, in order."""

    paths: tuple[Path, ...]
    calls: tuple[Call, ...]


@functools.lru_cache(maxsize=1024)
def reading_of(code: CodeType) -> Reading:
    """What ``code``, and the functions defined inside it, read and call."""
    paths: dict[Path, None] = {}
    calls: dict[Call, None] = {}
    count = code.co_argcount + code.co_kwonlyargcount
    given = {name: _one("local", name) for name in code.co_varnames[:count]}
    free = {name: _one("closure", name) for name in code.co_freevars}
    _Reader(code, given, free, paths, calls).read()
    return Reading(tuple(paths), tuple(calls))


def _one(kind: str, name: Any) -> Value:
    return frozenset({Path(kind, name)})


class _Reader:
    """Follows code once from its beginning to its end.

    Args:
        code: The code.
        given: Where its parameters come from.
        free: Where what is outside of it, in a function around it, comes from.
        paths: Where to put what it reads.
        calls: Where to put what it calls.
    """

    def __init__(
        self,
        code: CodeType,
        given: Mapping[str, Value],
        free: Mapping[str, Value],
        paths: dict[Path, None],
        calls: dict[Call, None],
    ) -> None:
        self.code = code
        self.variables = dict(given)
        self.free = free
        self.paths = paths
        self.calls = calls
        self.stack: list[Value] = []
        self.arriving: dict[int, list[Value]] = {}
        self.keywords: tuple[str, ...] = ()
        # Where what comprehensions go through comes from.
        self.iterated: dict[CodeType, Value] = {}

    def read(self) -> None:
        """Follow the code, and that of the functions inside it."""
        instructions = list(dis.get_instructions(self.code))
        # Twice, since a loop may go on with what it has stored.
        for _ in range(2):
            self.stack.clear()
            self.arriving.clear()
            left = False
            for instruction in instructions:
                self._arrive(instruction.offset, left)
                self._step(instruction)
                left = instruction.opname.startswith(_LEAVES)
        around = {**self.free, **self.variables}
        for constant in self.code.co_consts:
            if isinstance(constant, CodeType):
                given = {".0": self.iterated.get(constant, _UNKNOWN)}
                free = {name: around.get(name, _UNKNOWN) for name in constant.co_freevars}
                _Reader(constant, given, free, self.paths, self.calls).read()

    def _arrive(self, offset: int, left: bool) -> None:
        """Join what the stack holds with what it holds where others jump from."""
        other = self.arriving.get(offset)
        if left:
            self.stack = list(other or ())
        elif other is not None and len(other) == len(self.stack):
            self.stack = [a | b for a, b in zip(self.stack, other, strict=True)]

    def _pop(self) -> Value:
        return self.stack.pop() if self.stack else _UNKNOWN

    def _pop_many(self, count: int) -> list[Value]:
        return [self._pop() for _ in range(count)][::-1]

    def _step(self, instruction: dis.Instruction) -> None:
        name, value, number = instruction.opname, instruction.argval, instruction.arg or 0
        push = self.stack.append
        if name.startswith(_NOTHING):
            if name == "JUMP_FORWARD":
                self.arriving[value] = [*self.stack]
        elif name.startswith("LOAD_"):
            self._load(instruction)
        elif name.startswith("STORE_FAST"):
            self._store_fast(name, value)
        elif name == "STORE_DEREF":
            self._noted(self.free.get(value, _UNKNOWN))
            self._put(value, self._pop())
        elif name == "STORE_GLOBAL":
            self._noted(_one("global", value))
            self._pop()
        elif name == "STORE_ATTR":
            self._go(self._pop(), value)
            self._pop()
        elif name in ("CALL", "CALL_KW"):
            self._call(number, name == "CALL_KW")
        elif name == "CALL_FUNCTION_EX":
            given = self._pop_many(1 - dis.stack_effect(instruction.opcode, number))
            for each in _UNKNOWN.union(*given[:2]):
                if each.kind in _WAYS:
                    self.calls[Call(each, (), passes_on=True)] = None
            push(_UNKNOWN)
        elif name == "KW_NAMES":
            self.keywords = self.code.co_consts[number]
        elif name == "PUSH_NULL":
            push(_NULL)
        elif name == "COPY":
            push(self.stack[-number] if number <= len(self.stack) else _UNKNOWN)
        elif name == "SWAP":
            if number <= len(self.stack):
                self.stack[-1], self.stack[-number] = self.stack[-number], self.stack[-1]
        elif name == "BINARY_SUBSCR" or (name == "BINARY_OP" and instruction.argrepr == "[]"):
            index, container = self._pop(), self._pop()
            self._ask(container, "__getitem__", index)
            push(container if index == _SLICE else self._go(container, ITEM))
        elif name in ("BUILD_LIST", "BUILD_TUPLE", "BUILD_SET"):
            push(_UNKNOWN.union(*self._pop_many(number)))
        elif name == "BINARY_SLICE":
            push(self._pop_many(3)[0])
        elif name == "BUILD_SLICE":
            self._pop_many(number)
            push(_SLICE)
        elif name == "GET_ITER":
            self._iterate()
        elif name == "FOR_ITER":
            self.arriving[value] = self.stack[:-1]
            push(self._go(self.stack[-1] if self.stack else _UNKNOWN, ITEM))
        elif name in ("UNPACK_SEQUENCE", "UNPACK_EX"):
            count = number if name == "UNPACK_SEQUENCE" else (number & 255) + 1 + (number >> 8)
            self.stack += [self._go(self._pop(), ITEM)] * count
        elif name in ("IMPORT_NAME", "IMPORT_FROM"):
            self._import(name, value)
        elif name == "MAKE_FUNCTION":
            made = self._pop()
            self._pop_many(-dis.stack_effect(instruction.opcode, number))
            push(made)
        elif name == "SET_FUNCTION_ATTRIBUTE":
            push(self._pop_many(2)[1])
        else:
            self._other(instruction)

    def _load(self, instruction: dis.Instruction) -> None:
        name, value, number = instruction.opname, instruction.argval, instruction.arg or 0
        push = self.stack.append
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            if name == "LOAD_GLOBAL" and number & 1:
                push(_NULL)
            push(self._noted(_one("global", value)))
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            got = self._go(self._pop(), value)
            if name == "LOAD_METHOD" or (_METHOD_BIT and number & 1):
                push(_NULL)
            push(got)
        elif name == "LOAD_SUPER_ATTR":
            self._pop_many(3)
            if number & 1:
                push(_NULL)
            push(self._noted(frozenset({Path("super", "", (value,))})))
        elif name in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
            push(self._noted(self.free.get(value) or self.variables.get(value, _UNKNOWN)))
        elif name.startswith("LOAD_FAST"):
            # Newer Pythons load two at once.
            for each in value if isinstance(value, tuple) else (value,):
                push(self.variables.get(each, _UNKNOWN))
        elif name == "LOAD_CONST" and isinstance(value, CodeType):
            push(_one("code", value))
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            simple = isinstance(value, str | int | tuple | None)
            push(_one("constant", value) if simple else _UNKNOWN)
        else:
            self._other(instruction)

    def _store_fast(self, name: str, value: Any) -> None:
        if name == "STORE_FAST_LOAD_FAST":
            self._put(value[0], self._pop())
            self.stack.append(self.variables.get(value[1], _UNKNOWN))
            return
        for each in value if isinstance(value, tuple) else (value,):
            self._put(each, self._pop())

    def _put(self, name: str, value: Value) -> None:
        self.variables[name] = self.variables.get(name, _UNKNOWN) | value

    def _noted(self, value: Value) -> Value:
        self.paths.update(dict.fromkeys(each for each in value if each.kind in _WAYS))
        return value

    def _go(self, value: Value, step: str) -> Value:
        # A way that goes on for this long goes in circles.
        ways = (each for each in value if each.kind in _WAYS and len(each.steps) < 12)
        return self._noted(frozenset(Path(a, b, (*steps, step)) for a, b, steps in ways))

    def _ask(self, value: Value, method: str, *args: Value) -> None:
        for each in self._go(value, method):
            self.calls[Call(each, args)] = None

    def _iterate(self) -> None:
        value = self.stack[-1] if self.stack else _UNKNOWN
        self._ask(value, "__iter__")
        for below in self.stack[-2:-1]:
            for each in below:
                if each.kind == "code":
                    known = self.iterated.get(each.name, _UNKNOWN)
                    self.iterated[each.name] = known | value

    def _import(self, opname: str, name: str) -> None:
        if opname == "IMPORT_FROM":
            self.stack.append(self._go(self.stack[-1] if self.stack else _UNKNOWN, name))
            return
        level, names = self._pop_many(2)
        count = next((each.name for each in level if isinstance(each.name, int)), 0)
        if all(each.name is None for each in names) and not count:
            name = name.partition(".")[0]
        self.stack.append(self._noted(_one("import", "." * count + name)))

    def _call(self, count: int, names_on_stack: bool) -> None:
        keywords = self.keywords
        if names_on_stack:
            keywords = next((each.name for each in self._pop()), ())
        self.keywords = ()
        args = self._pop_many(count)
        # One of the two is empty, or the object of a method; which one depends on the version.
        callee = self._pop() | self._pop()
        result: Value = _UNKNOWN
        if any(each.kind == "code" for each in callee):
            # A function made here, which is read in its place.
            callee = _UNKNOWN
        for each in callee:
            if each.kind not in _WAYS:
                continue
            self.calls[Call(each, tuple(args), keywords)] = None
            result |= self._result(each, args)
        self.stack.append(result)

    def _result(self, callee: Path, args: list[Value]) -> Value:
        if callee.kind == "global" and not callee.steps:
            if callee.name in _PASSED_ON:
                return _UNKNOWN.union(*args)
            if callee.name == "super":
                return _one("super", "")
            if callee.name == "getattr" and len(args) > 1:
                names = [each.name for each in args[1] if isinstance(each.name, str)]
                return _UNKNOWN.union(*(self._go(args[0], name) for name in names))
        if callee.steps and callee.steps[-1] in _OF_CONTAINERS:
            # If what has this method is no container, it is taken for one with itself in it.
            owner = frozenset({callee._replace(steps=callee.steps[:-1])})
            return self._go(owner, ITEM) if callee.steps[-1] in _GIVE_ITEMS else owner
        return self._go(frozenset({callee}), RESULT)

    def _other(self, instruction: dis.Instruction) -> None:
        """Any other instruction: what it puts on the stack is not known."""
        name, number = instruction.opname, instruction.arg
        if name == "BEFORE_WITH":
            self._ask(self.stack[-1] if self.stack else _UNKNOWN, "__enter__")
        if instruction.opcode in _JUMPS:
            jumping = [*self.stack]
            gone = dis.stack_effect(instruction.opcode, number, jump=True)
            self.arriving[instruction.argval] = jumping[: len(jumping) + min(gone, 0)]
        effect = dis.stack_effect(instruction.opcode, number, jump=False)
        self._pop_many(-effect)
        if effect > 0:
            self.stack += [_UNKNOWN] * effect
        elif self.stack and not name.startswith(_TAKES) and instruction.opcode not in _JUMPS:
            self.stack[-1] = _UNKNOWN


_WAYS = ("global", "closure", "local", "import", "super")
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
