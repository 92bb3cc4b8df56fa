"""Observation of modules, operators, backward nodes, optimizer steps and compiled functions.

There is no overhead without observers. The first observer replaces the functions that run
operations by instrumented ones, and the last one restores them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from flambeau.compile.program import Program
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.operators import dispatch, function_modes
from flambeau.core.support.modes import modes
from flambeau.core.tape import engine
from flambeau.nn import calling
from flambeau.optim import step_hooks


class Observer(Protocol):
    """An observer of all operations that run.

    Attributes:
        sees_traces: Whether it observes operations that are being traced and do not run yet.
    """

    sees_traces: bool

    def around(self, kind: str, subject: Any, inputs: Any, compute: Callable[[], Any]) -> Any:
        """Run ``compute()``, with the observer's actions before and after it.

        Args:
            kind: ``"module"``, ``"operator"``, ``"backward"``, ``"optimizer"`` or ``"compiled"``.
            subject: The module, the kernel, the node, the optimizer or the program.
            inputs: The inputs of a module, a kernel or a program.
            compute: The function that runs it.
        """
        ...


_observers: list[Observer] = []
_lock = threading.Lock()


def add(observer: Observer) -> None:
    """Register ``observer`` for all operations, in all threads."""
    with _lock:
        _observers.append(observer)
        if len(_observers) == 1:
            _install()


def remove(observer: Observer) -> None:
    """Unregister it."""
    with _lock:
        _observers.remove(observer)
        if not _observers:
            _uninstall()


def _around(kind: str, subject: Any, inputs: Any, compute: Callable[[], Any]) -> Any:
    for observer in tuple(_observers):
        if modes.trace is None or observer.sees_traces:
            compute = _nested(observer, kind, subject, inputs, compute)
    return compute()


def _nested(
    observer: Observer, kind: str, subject: Any, inputs: Any, inner: Callable[[], Any]
) -> Callable[[], Any]:
    return lambda: observer.around(kind, subject, inputs, inner)


_run, _run_with_constants = dispatch.run, dispatch.run_with_constants
_run_node, _run_on = engine.Backward._run_node, Program.run_on
_call, _step = calling._call_with_hooks, step_hooks._run_step


def _watched_run(kernel: Any, inputs: tuple[Any, ...], bare: bool = False) -> Any:
    # Observers see tensors.
    return _around("operator", kernel, inputs, lambda: _run(kernel, inputs))


def _watched_run_with_constants(kernel: Any, tensors: Any, constants: Any) -> Any:
    return _around(
        "operator", kernel, tensors, lambda: _run_with_constants(kernel, tensors, constants)
    )


def _watched_run_node(self: Any, node: Any) -> Any:
    return _around("backward", node, (), lambda: _run_node(self, node))


def _watched_run_on(self: Any, leaves: Any, inputs: Any) -> Any:
    return _around("compiled", self, inputs, lambda: _run_on(self, leaves, inputs))


def _watched_call(module: Any, args: Any, kwargs: Any) -> Any:
    inputs = (*args, *kwargs.values())
    return _around("module", module, inputs, lambda: _call(module, args, kwargs))


def _watched_step(step: Any, optimizer: Any, args: Any, kwargs: Any) -> Any:
    return _around("optimizer", optimizer, (), lambda: _step(step, optimizer, args, kwargs))


# The functions to replace in flambeau's modules, and their instrumented versions. They are private,
# since programs compare public ones, such as `Module.__call__`, and hooks at each call.
_FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "run": (_run, _watched_run),
    "run_with_constants": (_run_with_constants, _watched_run_with_constants),
    "_call_with_hooks": (_call, _watched_call),
    # No class has this one, so no call of a module takes the fast path.
    "_plain_call": (calling._plain_call, object()),
    "_run_step": (_step, _watched_step),
}
_METHODS: list[tuple[Any, str, Any, Any]] = [
    (Kernel, "run", _run, _watched_run),
    (engine.Backward, "_run_node", _run_node, _watched_run_node),
    (Program, "run_on", _run_on, _watched_run_on),
]


def _install() -> None:
    for namespace in _namespaces():
        for name, (own, watched) in _FUNCTIONS.items():
            if namespace.get(name) is own:
                namespace[name] = watched
    for owner, name, _, watched in _METHODS:
        setattr(owner, name, watched)


def _uninstall() -> None:
    for namespace in _namespaces():
        for name, (own, watched) in _FUNCTIONS.items():
            if namespace.get(name) is watched:
                namespace[name] = own
    for owner, name, own, _ in _METHODS:
        setattr(owner, name, own)


def _namespaces() -> Iterator[dict[str, Any]]:
    """The globals of flambeau's modules, as they are outside of function modes."""
    here = __name__
    for name, module in list(sys.modules.items()):
        if name.startswith("flambeau.") and name != here and module is not None:
            yield vars(module)
    yield function_modes.kept_names
