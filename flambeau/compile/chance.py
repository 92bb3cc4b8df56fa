"""Values that change from call to call: random numbers, clocks, iterators, files.

A function reads them only while it is traced, and its program repeats the values of that moment. So
each of them gives a warning.
"""

from __future__ import annotations

import builtins
import datetime as dt
import functools
import io
import itertools
import operator
import os
import pickle
import random
import select
import socket
import time
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType, GeneratorType
from typing import Any, NamedTuple

import numpy as np

from flambeau.compile import errors
from flambeau.compile.ownership import STANDARD

_ADVICE = (
    "Draw random numbers with flambeau, as in flambeau.rand(()) < 0.5; get anything else outside "
    "of the compiled function, and pass it as a tensor"
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
    socket.socket: ("recv", "recv_into", "recvfrom", "recvfrom_into", "recvmsg", "accept"),
}  # fmt: skip
#: The names of these functions, by their ids.
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
_OF_DATES = ("now", "utcnow", "today")
#: Functions written in Python whose results differ from call to call, by module.
_WRITTEN = {
    "uuid": ("uuid1", "uuid4"),
    "secrets": ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "choice"),
    "pathlib": ("read_text", "read_bytes", "open", "stat", "exists", "iterdir", "glob"),
    "subprocess": (
        "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput",
        "communicate", "poll", "wait",
    ),
    "socket": ("accept", "create_connection", "readinto"),
    "urllib": ("urlopen",),
    "http": ("getresponse",),
    "queue": ("get", "get_nowait"),
    "multiprocessing": ("recv", "recv_bytes", "get", "get_nowait"),
}  # fmt: skip
# Code that seeds a generator from the system, NumPy's too; and Python's, if it gets no seed.
_ENTROPY = (random.SystemRandom.getrandbits.__code__, random.SystemRandom.random.__code__)
_MAKING = random.Random.__init__.__code__
_CACHED = type(functools.lru_cache(lambda: None))


class State(NamedTuple):
    """The position of a generator, an iterator or a file.

    Attributes:
        get: Gives the position now.
        set: Restores a position; ``None`` if it cannot be restored.
    """

    get: Callable[[], Any]
    set: Callable[[Any], Any] | None = None


class Chance:
    """The sources of changing values that one trace has used."""

    def __init__(self) -> None:
        self._met: dict[str, None] = {}
        # The name and state of each source, and its position before the function ran.
        self._watched: list[tuple[str, State, Any]] = []
        # Functions with cached results, with the number of their hits before.
        self._cached: list[tuple[str, Callable[[], Any], int]] = []
        self._watch("random", State(random.getstate, random.setstate))
        self._watch("numpy.random", State(_state_of_numpy, _set_state_of_numpy))

    def discover(self, value: Any) -> None:
        """Watch ``value`` if its position can move."""
        if isinstance(value, random.SystemRandom):
            self._met["random.SystemRandom"] = None
            return
        name = f"{_article(value)} {type(value).__name__}"
        if isinstance(value, io.IOBase) and not value.closed and not value.seekable():
            if value.readable():
                # A pipe does not tell its position.
                self._met[name] = None
            return
        state = _state_of(value)
        if state is not None:
            self._watch(name, state)

    def meet(self, function: Any) -> None:
        """Note that running code names ``function``."""
        if id(function) in _FUNCTIONS:
            self._met[_FUNCTIONS[id(function)]] = None
        elif isinstance(function, FunctionType) and function.__module__ == _CHECKPOINTS:
            self._met[f"flambeau.{function.__name__}()"] = None

    def meet_cached(self, function: Any) -> None:
        """Watch a function that may return results cached before the trace."""
        if isinstance(function, _CACHED):
            before = function.cache_info()
            if before.currsize:
                self._cached.append((function.__name__, function.cache_info, before.hits))

    def meet_date(self, cls: Any, name: str) -> None:
        """Note that running code reads the attribute ``name`` of a class of dates."""
        if isinstance(cls, type) and issubclass(cls, dt.date) and name in _OF_DATES:
            self._met[f"{cls.__name__}.{name}()"] = None

    def meet_call(self, frame: FrameType) -> None:
        """Note that the user's code calls a function of Python's library."""
        code = frame.f_code
        if code in _ENTROPY or (code is _MAKING and frame.f_locals.get("x") is None):
            self._met["a generator made without a seed"] = None
        for module, names in _WRITTEN.items():
            if code.co_name in names and is_written_in(code.co_filename, module):
                self._met[f"{module}.{code.co_qualname}()"] = None

    def warn(self) -> None:
        """Warn of every source that was used."""
        for name, state, before in self._watched:
            if state.get() != before:
                self._met[name] = None
        if self._met:
            errors.warn(
                f"the compiled function draws from {', '.join(self._met)} while it is traced, and "
                f"will find the same numbers at every call. {_ADVICE}"
            )
        used = [name for name, count, before in self._cached if count().hits != before]
        if used:
            errors.warn(
                f"the compiled function uses results that {', '.join(used)} had cached before it "
                "was traced. What they were computed from is seen as far as the cached function "
                "names it, but not attributes of objects that it has read; call cache_clear() "
                "before the first call, or pass the result as an argument"
            )

    def has_drawn(self) -> bool:
        """Whether the function has used a source whose position another call finds moved."""
        moved = any(state.get() != before for _, state, before in self._watched)
        return moved or bool(self._met)

    def put_back(self) -> None:
        """Restore the positions of generators and files; warn of those that cannot be restored."""
        lost = []
        for name, state, before in self._watched:
            if state.get() == before:
                continue
            if state.set is None:
                lost.append(name)
            else:
                state.set(before)
        if lost:
            errors.warn(
                f"the compiled function draws from {', '.join(lost)}, and its trace fails after "
                "that; what it has drawn is lost, and a call that runs eagerly draws again. Draw "
                "outside of the compiled function, and pass it as an argument"
            )

    def _watch(self, name: str, state: State) -> None:
        self._watched.append((name, state, state.get()))


def is_written_in(file: str, module: str) -> bool:
    """Whether a file belongs to ``module``, a file or folder of Python's library."""
    inside = next((file[len(each) :] for each in STANDARD if file.startswith(each)), "")
    return inside == f"{module}.py" or inside.startswith(f"{module}{os.sep}")


@functools.lru_cache(maxsize=1024)
def is_of_chance(file: str) -> bool:
    """Whether functions in a file may return something else at each call."""
    return file == random.__file__ or any(is_written_in(file, module) for module in _WRITTEN)


def _state_of_numpy() -> Any:
    return pickle.dumps(np.random.get_state(legacy=False))  # noqa: NPY002 (the user's)


def _set_state_of_numpy(state: bytes) -> None:
    np.random.set_state(pickle.loads(state))  # noqa: NPY002 (the user's)


def _state_of(value: Any) -> State | None:
    """The state of ``value`` if it is a generator, an iterator or a file; otherwise ``None``."""
    if any(value is each for each in _WATCHED_ANYWAY):
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
    if isinstance(value, GeneratorType):
        return State(lambda: None if value.gi_frame is None else value.gi_frame.f_lasti)
    if isinstance(value, io.IOBase):
        is_read = not value.closed and value.readable() and not value.writable()
        return State(
            lambda: None if value.closed else value.tell(), value.seek if is_read else None
        )
    if isinstance(value, itertools.count):
        return State(lambda: repr(value))
    if isinstance(value, Iterator) and hasattr(value, "__length_hint__"):
        return State(lambda: operator.length_hint(value, -1))
    if isinstance(value, enumerate):
        return State(lambda: value.__reduce__()[1][1])
    return None


def _article(value: Any) -> str:
    return "an" if type(value).__name__[:1].lower() in "aeiou" else "a"
