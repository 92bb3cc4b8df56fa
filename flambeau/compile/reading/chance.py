"""Values that change from call to call: random numbers, clocks, iterators, files, other threads.

A program would repeat the values that its trace has met, so a function that uses them has none.
During a trace, stand-ins replace iterators and functions such as `time.time` and refuse to be used,
so nothing is used up. Generators of random numbers and files get their positions back.
"""

from __future__ import annotations

import builtins
import datetime as dt
import functools
import io
import os
import pickle
import random
import select
import socket
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FrameType, FunctionType, MethodWrapperType
from typing import Any, NamedTuple

import numpy as np

from flambeau.compile import errors
from flambeau.compile.of_class import of_class
from flambeau.compile.ownership import STANDARD, in_class, is_of_library, is_own
from flambeau.core.operators.number import MATH, followed
from flambeau.core.support.modes import modes
from flambeau.core.values.pytree import is_tuple
from flambeau.core.values.trace import TracedValueError

_REASON = (
    "gives something else at each call, and a program would repeat what it gave while it was "
    "traced. Draw random numbers with flambeau, as in flambeau.rand(()) < 0.5; get anything else "
    "outside of the compiled function, and pass it as a tensor"
)
_ELSEWHERE = (
    "runs code on another thread, and what that reads is not compared with its value at the next "
    "call. Compute on the thread of the compiled function"
)
_CLOCKS = (
    "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns",
    "process_time", "process_time_ns", "localtime", "gmtime", "ctime", "strftime",
)  # fmt: skip
# Functions whose results differ from call to call, by the object that defines them.
_NAMES: dict[Any, tuple[str, ...]] = {
    time: _CLOCKS,
    os: (
        "urandom", "getpid", "getcwd", "listdir", "scandir", "stat", "read", "popen", "system",
        "getloadavg",
    ),
    os.path: ("exists", "isfile", "isdir", "getsize", "getmtime"),
    np: ("load", "loadtxt", "genfromtxt", "fromfile"),
    select: ("select", "poll", "epoll", "kqueue"),
    socket: ("gethostbyname", "gethostname", "getaddrinfo", "socketpair"),
}  # fmt: skip
# The names of these functions, by their ids.
_FUNCTIONS = {
    id(getattr(owner, name)): f"{owner.__name__}.{name}()"
    for owner, names in _NAMES.items()
    for name in names
    if hasattr(owner, name)
} | {id(io.open): "open()", id(builtins.input): "input()"}
# The generators behind the functions of `random` and `numpy.random`.
_WATCHED_ANYWAY: tuple[Any, ...] = tuple(
    getattr(draw, "__self__", None) for draw in (random.random, np.random.rand)
)
# The module of `flambeau.load` and `flambeau.save`.
_CHECKPOINTS = "flambeau.checkpoint.io"
_OF_DATES = {"now", "utcnow", "today"}
#: The modules of Python whose attributes are watched for these functions. Reads of NumPy's would
#: take too long: JAX makes many.
MODULES = (time, os, os.path, select, socket, io, dt)
#: Functions written in Python whose results differ from call to call, by module.
_WRITTEN = {
    "uuid": ("uuid1", "uuid4"),
    "secrets": ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "choice"),
    "pathlib": ("read_text", "read_bytes", "open", "stat", "exists", "iterdir", "glob"),
    "subprocess": (
        "__init__", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput",
        "communicate", "poll", "wait",
    ),
    "socket": ("accept", "create_connection", "readinto"),
    "urllib": ("urlopen",),
    "http": ("getresponse",),
    "queue": ("get", "get_nowait"),
    "multiprocessing": ("recv", "recv_bytes", "get", "get_nowait"),
}  # fmt: skip
#: Functions that run code on another thread, by module.
_STARTING = {
    "threading": ("start",),
    "concurrent": ("submit", "map"),
    "multiprocessing": ("apply", "apply_async", "map", "map_async", "imap", "imap_unordered"),
}
# Code that seeds a generator from the system, NumPy's too; and Python's, if it gets no seed.
_ENTROPY = (random.SystemRandom.getrandbits.__code__, random.SystemRandom.random.__code__)
_MAKING = random.Random.__init__.__code__
_BOUND = (BuiltinFunctionType, MethodWrapperType)


class State(NamedTuple):
    """The position of a generator, an iterator or a file.

    Attributes:
        get: Gives the position now.
        set: Restores a position.
    """

    get: Callable[[], Any]
    set: Callable[[Any], Any]


class Chance:
    """The sources of changing values that one trace has used."""

    def __init__(self) -> None:
        # The names of used sources for which there is no stand-in, and the classes of dates.
        self._met: dict[str, None] = {}
        self._dates: set[type] = set()
        # The name and state of each source, and its position before the function ran.
        self._watched: list[tuple[str, State, Any]] = []
        # Slots whose values are replaced, with the old value and the new.
        self._replaced: list[tuple[Any, Any, Any]] = []
        #: Whether functions of `math` follow numbers; see `Following`.
        self.follows_math: bool = False
        #: Whether the function has returned, so that nothing is replaced any more.
        self.is_over: bool = False
        self._watch("random", State(random.getstate, random.setstate))
        self._watch("numpy.random", State(_state_of_numpy, _set_state_of_numpy))

    def discover(self, value: Any) -> None:
        """Watch ``value`` if its position can move."""
        if isinstance(value, random.SystemRandom):
            self._met["random.SystemRandom"] = None
            return
        state = _state_of(value)
        if state is not None:
            self._watch(_name_of(value), state)

    def look_at(self, slot: Any, value: Any) -> None:
        """Replace ``value``, the value of ``slot``, if it may not be used."""
        is_of_math = self.follows_math and type(value) is BuiltinFunctionType and value in MATH
        replaced = following(value) if is_of_math else self._stand_in(value)
        if replaced is not value:
            self.replace(slot, value, replaced)
        elif is_tuple(value):
            self.refuse_in(value)

    def replace(self, slot: Any, value: Any, replaced: Any) -> None:
        """Put ``replaced`` in the place of ``value``, the value of ``slot``, during the trace."""
        self._replaced.append((slot, value, replaced))
        slot.set(replaced)

    def refuse_in(self, container: Any) -> None:
        """Fail if a container holds an iterator or the like, which the function may use up."""
        for each in container:
            stand_in = self._stand_in(each)
            if stand_in is not each:
                _refuse(stand_in.name)

    def overwritten(self) -> list[tuple[Any, Any]]:
        """The slots in which there is something else by now, with the stand-ins that were there."""
        return [
            (slot, replaced) for slot, _, replaced in self._replaced if slot.get() is not replaced
        ]

    def restore(self) -> None:
        """Put the values back that `replace` has replaced."""
        self.is_over = True
        for slot, value, replaced in self._replaced:
            if slot.get() is replaced:
                slot.set(value)

    def replace_again(self) -> None:
        """Undo `restore`."""
        self.is_over = False
        for slot, value, replaced in self._replaced:
            if slot.get() is value:
                slot.set(replaced)

    def forget(self) -> None:
        """Drop all values, once they are put back."""
        self._replaced.clear()

    def _stand_in(self, value: Any) -> Any:
        """The replacement for ``value`` during the trace: itself, if it may be used."""
        name = _function_name(value)
        if name:
            return Refusing(value, name)
        if _is_one_way(type(value)):
            return RefusingIterator(value, _name_of(value))
        if isinstance(value, socket.socket) or _is_pipe(value):
            return RefusingPipe(value, _name_of(value))
        owner = getattr(value, "__self__", None) if type(value) in _BOUND else None
        is_pull = _is_one_way(type(owner)) and value.__name__ in ("__next__", "send")
        return Refusing(value, _name_of(owner)) if is_pull else value

    def meet(self, function: Any) -> None:
        """Note that running code names ``function``, for which there is no stand-in."""
        name = _function_name(function)
        if name:
            self._met[name] = None

    def meet_class(self, cls: type) -> None:
        """Note that running code reaches a class."""
        if issubclass(cls, dt.date):
            self._dates.add(cls)

    def meet_names(self, names: set[str]) -> None:
        """Note the names in the code that ran."""
        self._met |= {
            f"{cls.__name__}.{name}()": None for cls in self._dates for name in _OF_DATES & names
        }

    def meet_call(self, frame: FrameType) -> None:
        """Refuse a call of a function of Python's library by the user's code, before it runs."""
        code = frame.f_code
        if code in _ENTROPY or (code is _MAKING and frame.f_locals.get("x") is None):
            _refuse("a generator made without a seed")
        for table, reason in ((_WRITTEN, _REASON), (_STARTING, _ELSEWHERE)):
            for module, names in table.items():
                if code.co_name in names and is_written_in(code.co_filename, module):
                    _refuse(f"{module}.{code.co_qualname}()", reason)

    def refuse(self) -> None:
        """Fail if a source was used.

        Raises:
            CompileError: A source was used.
        """
        moved = [name for name, state, before in self._watched if state.get() != before]
        if moved or self._met:
            names = ", ".join([*moved, *self._met])
            raise errors.CompileError(f"the compiled function draws from {names}, which {_REASON}")

    def has_drawn(self) -> bool:
        """Whether the function has used a source whose position another call finds moved."""
        moved = any(state.get() != before for _, state, before in self._watched)
        return moved or bool(self._met)

    def put_back(self) -> None:
        """Restore the positions of generators and files."""
        for _, state, before in self._watched:
            if state.get() != before:
                state.set(before)

    def _watch(self, name: str, state: State) -> None:
        self._watched.append((name, state, state.get()))


def is_written_in(file: str, module: str) -> bool:
    """Whether a file belongs to ``module``, a file or folder of Python's library."""
    inside = next((file[len(each) :] for each in STANDARD if file.startswith(each)), "")
    return inside == f"{module}.py" or inside.startswith(f"{module}{os.sep}")


@functools.lru_cache(maxsize=1024)
def is_of_chance(file: str) -> bool:
    """Whether functions in a file may return something else at each call."""
    modules = {*_WRITTEN, *_STARTING}
    return file == random.__file__ or any(is_written_in(file, module) for module in modules)


def _state_of_numpy() -> Any:
    return pickle.dumps(np.random.get_state(legacy=False))  # noqa: NPY002 (the user's)


def _set_state_of_numpy(state: bytes) -> None:
    np.random.set_state(pickle.loads(state))  # noqa: NPY002 (the user's)


def _state_of(value: Any) -> State | None:
    """The state of ``value`` if it is a generator, an iterator or a file; otherwise ``None``."""
    if any(value is each for each in (*_WATCHED_ANYWAY, sys.stdout, sys.stderr)):
        return None
    if isinstance(value, random.Random):
        return State(value.getstate, value.setstate)
    if isinstance(value, np.random.Generator):
        bits = value.bit_generator
        return State(
            lambda: pickle.dumps(bits.state),
            lambda state: setattr(bits, "state", pickle.loads(state)),
        )
    if isinstance(value, np.random.RandomState):
        return State(
            lambda: pickle.dumps(value.get_state(legacy=False)),
            lambda state: value.set_state(pickle.loads(state)),
        )
    if isinstance(value, io.IOBase) and not value.closed and value.seekable():
        position = value.tell()
        is_at_end = value.writable() and value.seek(0, io.SEEK_END) == position
        value.seek(position)

        def rewind(position: int) -> None:
            value.seek(position)
            if is_at_end:
                value.truncate()

        return State(lambda: None if value.closed else value.tell(), rewind)
    return None


def _name_of(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _function_name(value: Any) -> str:
    """The name of a function whose results differ from call to call; "" for others."""
    if isinstance(value, FunctionType) and value.__module__ == _CHECKPOINTS:
        return f"flambeau.{value.__name__}()"
    return _FUNCTIONS.get(id(value), "")


def is_iterator(value: Any) -> bool:
    """Whether ``value`` is an iterator; weak proxies have an iterator's methods in any case."""
    return isinstance(value, Iterator) and type(value) not in weakref.ProxyTypes


@of_class
def _is_one_way(cls: type) -> bool:
    """Whether objects of a class are iterators whose position is not an attribute."""
    known = (io.IOBase, RefusingIterator, *weakref.ProxyTypes)
    if not issubclass(cls, Iterator) or issubclass(cls, known):
        return False
    step = in_class(cls, "__next__")
    return not isinstance(step, FunctionType) or is_own(cls)


def _refuse(name: str, reason: str = _REASON) -> None:
    raise TracedValueError(f"{name} {reason}")


class Refusing:
    """Stands for a function that the traced function must not call.

    Other threads and libraries call the function itself.
    """

    def __init__(self, raw: Any, name: str) -> None:
        self.raw, self.name = raw, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if modes.trace is not None and not is_of_library(sys._getframe(1).f_code):
            _refuse(self.name)
        return self.raw(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class Following(Refusing):
    """Stands for a function of `math`, so that a `Number` among its arguments is followed."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.raw(*args, **kwargs) if kwargs else followed(self.raw, args)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.raw

    def __hash__(self) -> int:
        return hash(self.raw)


@functools.cache
def following(function: Any) -> Following:
    """The one that stands for a function wherever code finds it."""
    return Following(function, function.__name__)


class RefusingIterator(Refusing):
    """Stands for an iterator that the traced function must not advance."""

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        if modes.trace is not None:
            _refuse(self.name)
        return next(self.raw)

    def send(self, value: Any) -> Any:
        """Refuse as `__next__` does."""
        return next(self) if modes.trace is not None else self.raw.send(value)


class RefusingPipe(RefusingIterator):
    """Stands for a pipe or a socket that the traced function must not read from."""

    def __getattr__(self, name: str) -> Any:
        if modes.trace is not None and name.startswith(("read", "recv", "accept", "makefile")):
            _refuse(self.name)
        return getattr(self.raw, name)

    def __enter__(self) -> Any:
        self.raw.__enter__()
        return self

    def __exit__(self, *exception: Any) -> Any:
        return self.raw.__exit__(*exception)


def _is_pipe(value: Any) -> bool:
    """Whether ``value`` is a stream that does not tell its position."""
    return isinstance(value, io.IOBase) and not (value.closed or value.seekable())
