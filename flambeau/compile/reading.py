"""What code reads: the names that it takes from outside, what it asks of them, and what it calls.

The bytecode is followed with *paths* on the stack in place of values: where each value may come
from, a container standing for what is in it. What an instruction gives may be whatever it takes;
those that look something up, call something or arrange the stack are known better. So a Python that
comes later needs a word here only where it does these otherwise. What a call gives is not known,
unless Python itself is called.
"""

from __future__ import annotations

import builtins
import dis
import functools
import re
from collections.abc import Mapping
from types import CodeType
from typing import Any, NamedTuple

#: A step from something that is called to what it gives.
RESULT = "()"

_WAYS = ("global", "closure", "local", "import", "super")
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_LEAVES = ("JUMP_FORWARD", "JUMP_BACKWARD", "RETURN_", "RAISE_", "RERAISE")
# What takes from the stack, and leaves what is below as it is.
_TAKES = ("POP_", "STORE_", "DELETE_", "END_")
# What puts something new on the stack.
_NEW = ("LOAD_", "PUSH_", "BUILD_")
# What puts something into a container that is further below.
_INTO = ("_ADD", "_APPEND", "_EXTEND", "_MERGE", "_UPDATE")


class Path(NamedTuple):
    """Where a value comes from.

    Attributes:
        kind: ``"global"``, ``"closure"``, ``"local"`` (a parameter), ``"import"``, ``"super"``;
            or ``"constant"`` and ``"code"``, which begin no way.
        name: The name; of a constant, its value.
        steps: Attributes and `RESULT`, which lead on from there.
    """

    kind: str
    name: Any
    steps: tuple[str, ...] = ()


Value = frozenset[Path]
_UNKNOWN: Value = frozenset()


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
        # What comprehensions are called with: what they go through.
        self.iterated: dict[CodeType, Value] = {}

    def read(self) -> None:
        """Follow the code, and that of the functions inside it."""
        instructions = list(dis.get_instructions(self.code))
        # Twice, since a loop may go on with what it has stored.
        for _ in range(2):
            self.stack, self.arriving = [], {}
            for instruction in instructions:
                self.stack = _joined(self.stack, self.arriving.get(instruction.offset, []))
                self._step(instruction)
                if instruction.opname.startswith(_LEAVES):
                    self.stack = []
        around = {**self.free, **self.variables}
        for constant in self.code.co_consts:
            if isinstance(constant, CodeType):
                given = {".0": self.iterated.get(constant, _UNKNOWN)}
                free = {name: around.get(name, _UNKNOWN) for name in constant.co_freevars}
                _Reader(constant, given, free, self.paths, self.calls).read()

    def _pop(self) -> Value:
        return self.stack.pop() if self.stack else _UNKNOWN

    def _pop_many(self, count: int) -> list[Value]:
        return [self._pop() for _ in range(count)][::-1]

    def _top(self) -> Value:
        return self.stack[-1] if self.stack else _UNKNOWN

    def _step(self, instruction: dis.Instruction) -> None:
        name, value, number = instruction.opname, instruction.argval, instruction.arg or 0
        if name.startswith(("LOAD_FAST", "STORE_FAST")):
            self._fast(name, value)
        elif name in ("LOAD_GLOBAL", "LOAD_NAME"):
            self._found(instruction, self._noted(_one("global", value)))
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            self._found(instruction, self._go(self._pop(), value), 1)
        elif name == "LOAD_SUPER_ATTR":
            self._pop_many(3)
            self._found(instruction, self._noted(frozenset({Path("super", "", (value,))})), 3)
        elif name.startswith("LOAD_") and name.endswith("DEREF"):
            found = self.free.get(value) or self.variables.get(value, _UNKNOWN)
            self._found(instruction, self._noted(found))
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            self.stack.append(_one("code" if isinstance(value, CodeType) else "constant", value))
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
            self.stack.append(_UNKNOWN)
        elif name == "KW_NAMES":
            self.keywords = self.code.co_consts[number]
        elif name == "COPY":
            self.stack.append(self.stack[-number] if number <= len(self.stack) else _UNKNOWN)
        elif name == "SWAP":
            if number <= len(self.stack):
                self.stack[-1], self.stack[-number] = self.stack[-number], self.stack[-1]
        elif name == "BINARY_SUBSCR" or (name == "BINARY_OP" and instruction.argrepr == "[]"):
            index = self._pop()
            self._ask(self._top(), "__getitem__", index)
        elif name == "IMPORT_NAME":
            self._import(value)
        elif name == "IMPORT_FROM":
            self.stack.append(self._go(self._top(), value))
        elif name != "PRECALL":
            self._other(instruction)

    def _found(self, instruction: dis.Instruction, value: Value, taken: int = 0) -> None:
        """Put ``value`` on the stack, above what else an instruction that took some puts there."""
        count = dis.stack_effect(instruction.opcode, instruction.arg) + taken
        self.stack += [*[_UNKNOWN] * (count - 1), value]

    def _fast(self, name: str, names: Any) -> None:
        # Newer Pythons do two at once.
        names = names if isinstance(names, tuple) else (names,)
        for action, each in zip(re.findall("LOAD_FAST|STORE_FAST", name), names, strict=True):
            if action == "LOAD_FAST":
                self.stack.append(self.variables.get(each, _UNKNOWN))
            else:
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

    def _import(self, name: str) -> None:
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
        made = {each for each in callee if each.kind == "code"}
        for each in made:
            # A function made here, which is read in its place.
            known = self.iterated.get(each.name, _UNKNOWN)
            self.iterated[each.name] = known.union(callee - made, *args)
        result = _UNKNOWN
        for each in () if made else callee:
            if each.kind in _WAYS:
                self.calls[Call(each, tuple(args), keywords)] = None
                result |= self._result(each, args)
        self.stack.append(result)

    def _result(self, callee: Path, args: list[Value]) -> Value:
        given = self._go(frozenset({callee}), RESULT)
        if callee.kind != "global" or callee.steps or not hasattr(builtins, callee.name):
            return given
        if callee.name == "super":
            return _one("super", "")
        if callee.name == "getattr" and len(args) > 1:
            names = [each.name for each in args[1] if isinstance(each.name, str)]
            return _UNKNOWN.union(*(self._go(args[0], name) for name in names))
        return given.union(*args)

    def _other(self, instruction: dis.Instruction) -> None:
        """Any other instruction: what it gives may be whatever it takes."""
        name, code, number = instruction.opname, instruction.opcode, instruction.arg
        if name == "GET_ITER":
            self._ask(self._top(), "__iter__")
        elif name == "BEFORE_WITH":
            self._ask(self._top(), "__enter__")
        if code in _JUMPS:
            more = dis.stack_effect(code, number, jump=True)
            stack = self.stack[: len(self.stack) + min(more, 0)] + [_UNKNOWN] * max(more, 0)
            target = instruction.argval
            self.arriving[target] = _joined(self.arriving.get(target, []), stack)
        effect = dis.stack_effect(code, number, jump=False)
        if effect > 0:
            self.stack += [_UNKNOWN if name.startswith(_NEW) else self._top()] * effect
            return
        taken = self._pop_many(-effect)
        place = (number or 1) if name.endswith(_INTO) else 1
        if place <= len(self.stack) and code not in _JUMPS and not name.startswith(_TAKES):
            self.stack[-place] = self.stack[-place].union(*taken)


def _joined(one: list[Value], other: list[Value]) -> list[Value]:
    """The stack where two ways meet."""
    if len(one) != len(other):
        return one or other
    return [a | b for a, b in zip(one, other, strict=True)]
