"""Hooks into Python that tell a trace which functions start and which attributes are read.

Both are removed when the trace ends. The classes of watched objects get a ``__getattribute__``,
``__setattr__`` and ``__delattr__`` that tell the trace first. Python calls these for every read,
also for ``getattr`` with a computed name, ``operator.attrgetter`` and a ``match`` statement.
Python modules get a subclass of their class, which cannot be changed. Python's interface for
debuggers tells which functions start: `sys.monitoring`, and `sys.settrace` before Python 3.12.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from flambeau.core.support.modes import modes
from flambeau.core.values.trace import outside

METHODS = ("__getattribute__", "__setattr__", "__delattr__")
_HEAP, _IMMUTABLE = 1 << 9, 1 << 8
# The getter of the hook that each of these functions sets.
_GETTERS = {sys.settrace: sys.gettrace, sys.setprofile: sys.getprofile}
# The name of flambeau as a tool of `sys.monitoring`.
_TOOL = "flambeau"

#: Watched classes, with the owners of the watch and the methods that the class itself defined.
_telling: dict[type, tuple[set[Any], dict[str, Any]]] = {}
#: Watched Python modules, by id, with the owners of the watch and the module's own class.
_telling_modules: dict[int, tuple[set[Any], type]] = {}
_lock = threading.RLock()


def can_tell(cls: type) -> bool:
    """Whether the attributes of objects of ``cls`` can be watched."""
    settable = type(cls).__setattr__
    return (
        bool(cls.__flags__ & _HEAP)
        and not cls.__flags__ & _IMMUTABLE
        # Classes of ctypes refuse.
        and (settable is type.__setattr__ or isinstance(settable, FunctionType))
    )


def own_method(cls: type, name: str) -> Any:
    """The method in `METHODS` that the class itself defines; ``None`` if it does not."""
    with _lock:
        own = _telling[cls][1] if cls in _telling else vars(cls)
        return own.get(name)


def tell(cls: type, wanted_by: Any) -> None:
    """Make the objects of ``cls`` tell the trace of the current thread of reads and writes.

    Args:
        cls: The class.
        wanted_by: The owner of the watch, as for `stop_telling`.
    """
    with _lock:
        if cls not in _telling:
            own = {name: vars(cls)[name] for name in METHODS if name in vars(cls)}
            owners = {wanted_by}
            methods = {name: _telling_method(name, getattr(cls, name), owners) for name in METHODS}
            _telling[cls] = owners, own
            for name, method in methods.items():
                type.__setattr__(cls, name, method)
        _telling[cls][0].add(wanted_by)


def stop_telling(cls: type, wanted_by: Any) -> None:
    """Undo `tell`; after an interrupt it may be called again."""
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
    """Make a Python module tell the trace of the current thread of reads and writes."""
    with _lock:
        if id(module) not in _telling_modules:
            cls = type(module)
            _telling_modules[id(module)] = {wanted_by}, cls
            module.__class__ = _telling_subclass(cls)
        _telling_modules[id(module)][0].add(wanted_by)


def stop_telling_of_module(module: ModuleType, wanted_by: Any) -> None:
    """Undo `tell_of_module`; after an interrupt it may be called again."""
    with _lock:
        wanting, cls = _telling_modules.get(id(module), ((), type(module)))
        if wanting and wanting - {wanted_by}:
            wanting.discard(wanted_by)
        elif wanting:
            if type(module) is _telling_subclass(cls):
                # A lazily loaded module has changed its class itself.
                module.__class__ = cls
            del _telling_modules[id(module)]


@functools.lru_cache(maxsize=64)
def _telling_subclass(cls: type) -> type:
    methods = {name: _telling_method(name, getattr(cls, name)) for name in METHODS}
    return type(cls.__name__, (cls,), {"__slots__": (), "__module__": cls.__module__, **methods})


def _telling_method(name: str, original: Callable[..., Any], owners: Iterable[Any] = ()) -> Any:
    # Only an attribute that is there can be deleted.
    tells = "before_write" if name == "__setattr__" else "before_read"

    def method(self: Any, attribute: str, *value: Any) -> Any:
        trace = modes.trace
        if trace is None:
            # The traced function may have started this thread.
            for reads in [*owners]:
                reads.elsewhere.add((id(self), attribute))
        elif not trace.reads_outside.paused:
            getattr(trace.reads_outside, tells)(self, attribute)
        return original(self, attribute, *value)

    return functools.wraps(original)(method)


def run_imports(wanted_by: Any) -> None:
    """Run modules that a traced function imports outside of the trace.

    Args:
        wanted_by: The owner of the watch, as for `stop_running_imports`.
    """
    with _lock:
        _running_imports.add(wanted_by)
        builtins.__import__ = _import


def stop_running_imports(wanted_by: Any) -> None:
    """Undo `run_imports`; after an interrupt it may be called again."""
    with _lock:
        _running_imports.discard(wanted_by)
        if not _running_imports and builtins.__import__ is _import:
            builtins.__import__ = _own_import


def _import(name: str, *args: Any, **kwargs: Any) -> Any:
    trace = modes.trace
    if trace is None or _is_there(name, *args):
        return _own_import(name, *args, **kwargs)
    count = len(sys.modules)
    with trace.paused(), outside():
        module = _own_import(name, *args, **kwargs)
    if len(sys.modules) > count:
        trace.reads_outside.started_again(sys._getframe(1))
    return module


def _is_there(name: str, *args: Any) -> bool:
    """Whether everything that an ``import`` statement names is imported already."""
    if len(args) != 4 or args[3] or name not in sys.modules:
        return False
    return all(hasattr(sys.modules[name], each) for each in args[2] or ())


_own_import = builtins.__import__
_running_imports: set[Any] = set()


class Running:
    """A block that calls ``started(frame)`` for functions that this thread starts.

    Args:
        started: The function to call with the frame of the started function.
        is_of_interest: Whether functions in a file are reported.
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
        # The function that sets Python's hook, and the hook before.
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
        # A debugger or a measurement of coverage keeps its hook; then the profiler's is used.
        hook = sys.settrace if sys.gettrace() is None else sys.setprofile
        self._before = None if hook is sys.settrace else sys.getprofile()
        self._set = hook
        hook(self._on_event)

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop calling ``started``; after an interrupt it may be called again."""
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
        """A block in which functions that this thread starts are not reported."""
        # A hook costs as much as a short function; `sys.monitoring` asks once for each function.
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
    """Reserve a free number for a tool of `sys.monitoring`; ``None`` if there is none."""
    if sys.version_info >= (3, 12):
        for tool in range(5, -1, -1):
            try:
                sys.monitoring.use_tool_id(tool, _TOOL)
            except ValueError:
                continue
            return tool
    return None
