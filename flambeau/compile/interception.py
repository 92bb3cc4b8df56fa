"""Noticing what runs and what is read while a function is traced.

Two means, both taken back when the trace ends. The classes of the objects that a trace watches get
an ``__getattribute__``, ``__setattr__`` and ``__delattr__`` that tell the trace first: Python calls
them whoever asks, also ``getattr`` with a name that was computed, ``operator.attrgetter`` or a
``match`` statement. Modules of Python, whose class cannot be changed, get a subclass. And Python's
own means for debuggers tell which functions run, whoever calls them: `sys.monitoring`, and
`sys.settrace` before Python 3.12.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from flambeau.core.modes import modes

METHODS = ("__getattribute__", "__setattr__", "__delattr__")
_HEAP, _IMMUTABLE = 1 << 9, 1 << 8
# What gives the hook that each of these sets.
_GETTERS = {sys.settrace: sys.gettrace, sys.setprofile: sys.getprofile}
# The name under which Python is monitored.
_TOOL = "flambeau"

#: The classes that tell, with whom they tell and what they defined themselves.
_telling: dict[type, tuple[set[Any], dict[str, Any]]] = {}
#: Modules that tell, by id, with whom they tell and the class that they had.
_telling_modules: dict[int, tuple[set[Any], type]] = {}
_lock = threading.RLock()


def can_tell(cls: type) -> bool:
    """Whether the attributes of the class's objects can be watched."""
    settable = type(cls).__setattr__
    return (
        bool(cls.__flags__ & _HEAP)
        and not cls.__flags__ & _IMMUTABLE
        # Not those of ctypes.
        and (settable is type.__setattr__ or isinstance(settable, FunctionType))
    )


def own_method(cls: type, name: str) -> Any:
    """What the class itself defines under a name among `METHODS`; ``None`` if nothing."""
    with _lock:
        own = _telling[cls][1] if cls in _telling else vars(cls)
        return own.get(name)


def tell(cls: type, wanted_by: Any) -> None:
    """Let the objects of ``cls`` tell the trace of their thread what is asked of them.

    Args:
        cls: The class.
        wanted_by: Who wants to be told, and says so to `stop_telling` later.
    """
    with _lock:
        if cls not in _telling:
            own = {name: vars(cls)[name] for name in METHODS if name in vars(cls)}
            methods = {name: _telling_method(name, getattr(cls, name)) for name in METHODS}
            _telling[cls] = {wanted_by}, own
            for name, method in methods.items():
                type.__setattr__(cls, name, method)
        _telling[cls][0].add(wanted_by)


def stop_telling(cls: type, wanted_by: Any) -> None:
    """Undo `tell`; this may be done again where an exception interrupts it."""
    with _lock:
        wanting, own = _telling.get(cls, ((), {}))
        if wanting and wanting - {wanted_by}:
            wanting.discard(wanted_by)
        elif wanting:
            for name in METHODS:
                if name in own:
                    type.__setattr__(cls, name, own[name])
                elif name in vars(cls):
                    type.__delattr__(cls, name)
            del _telling[cls]


def tell_of_module(module: ModuleType, wanted_by: Any) -> None:
    """Let a module tell the trace of its thread what is asked of it."""
    with _lock:
        if id(module) not in _telling_modules:
            cls = type(module)
            _telling_modules[id(module)] = {wanted_by}, cls
            module.__class__ = _telling_subclass(cls)
        _telling_modules[id(module)][0].add(wanted_by)


def stop_telling_of_module(module: ModuleType, wanted_by: Any) -> None:
    """Undo `tell_of_module`; this may be done again where an exception interrupts it."""
    with _lock:
        wanting, cls = _telling_modules.get(id(module), ((), type(module)))
        if wanting and wanting - {wanted_by}:
            wanting.discard(wanted_by)
        elif wanting:
            if type(module) is _telling_subclass(cls):
                # One that is loaded when it is first asked for something has changed it itself.
                module.__class__ = cls
            del _telling_modules[id(module)]


@functools.lru_cache(maxsize=64)
def _telling_subclass(cls: type) -> type:
    methods = {name: _telling_method(name, getattr(cls, name)) for name in METHODS}
    return type(cls.__name__, (cls,), {"__slots__": (), "__module__": cls.__module__, **methods})


def _telling_method(name: str, original: Callable[..., Any]) -> Any:
    tells = "before_read" if name == "__getattribute__" else "before_write"

    def method(self: Any, attribute: str, *value: Any) -> Any:
        trace = modes.trace
        if trace is not None and not trace.reads_outside.paused:
            getattr(trace.reads_outside, tells)(self, attribute)
        return original(self, attribute, *value)

    return functools.wraps(original)(method)


class Running:
    """A block that calls ``started(frame)`` for functions that this thread starts.

    Args:
        started: What to call.
        is_of_interest: Whether it wants to know of the functions in a file.
    """

    def __init__(
        self,
        started: Callable[[FrameType], None],
        is_of_interest: Callable[[str], bool],
    ) -> None:
        self.started = started
        self.is_of_interest = is_of_interest
        self._known: dict[str, bool] = {}
        self._tool: int | None = None
        # What sets Python's hook that tells of functions, and what was set before.
        self._set: Any = None
        self._before: Any = None

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        if sys.version_info >= (3, 12) and (tool := _free_tool()) is not None:
            self._tool = tool
            events = sys.monitoring.events.PY_START
            sys.monitoring.register_callback(tool, events, self._on_start)
            sys.monitoring.set_events(tool, events)
            return
        # A debugger or a measurement of coverage keeps its hook; then there is the profiler's.
        hook = sys.settrace if sys.gettrace() is None else sys.setprofile
        self._before = None if hook is sys.settrace else sys.getprofile()
        self._set = hook
        hook(self._on_event)

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Call ``started`` no more; this may be done again where an exception interrupts it."""
        if self._set is not None:
            self._set(self._before)
            self._set = None
        tool = self._tool
        if tool is not None and sys.version_info >= (3, 12):
            if sys.monitoring.get_tool(tool) == _TOOL:
                sys.monitoring.set_events(tool, 0)
                sys.monitoring.register_callback(tool, sys.monitoring.events.PY_START, None)
                sys.monitoring.free_tool_id(tool)
            self._tool = None

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """A block in which this thread runs functions that nobody wants to know of."""
        # A hook takes as long as a short function; `sys.monitoring` asks once for each function.
        hook, getter = self._set, _GETTERS.get(self._set)
        if getter is None or getter() != self._on_event or threading.get_ident() != self._thread:
            yield
            return
        hook(self._before)
        try:
            yield
        finally:
            if self._set is hook:
                hook(self._on_event)

    def _on_start(self, code: CodeType, offset: int) -> Any:
        if not self._wants(code.co_filename):
            # Python need not ask again.
            return sys.monitoring.DISABLE if sys.version_info >= (3, 12) else None
        if threading.get_ident() == self._thread:
            self.started(sys._getframe(1))
        return None

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and self._wants(frame.f_code.co_filename):
            self.started(frame)

    def _wants(self, file: str) -> bool:
        wanted = self._known.get(file)
        if wanted is None:
            wanted = self._known[file] = self.is_of_interest(file)
        return wanted


def _free_tool() -> int | None:
    """A number under which Python can be monitored that nobody else uses; it is taken."""
    if sys.version_info >= (3, 12):
        for tool in range(5, -1, -1):
            try:
                sys.monitoring.use_tool_id(tool, _TOOL)
            except ValueError:
                continue
            return tool
    return None
