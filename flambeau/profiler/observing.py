"""Watching what runs: operators, nodes of backward, compiled functions.

Nothing looks for observers while there are none. The first one puts watching functions in the
places of those that run things, the last one takes them away.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from flambeau.compile.program import Program
from flambeau.core import dispatch, engine, function_modes
from flambeau.core.kernel import Kernel
from flambeau.core.modes import modes


class Observer(Protocol):
    """The observer that is told of everything that runs."""

    def around(self, kind: str, subject: Any, inputs: Any, compute: Callable[[], Any]) -> Any:
        """``compute()``, and whatever the observer does before and after.

        Args:
            kind: ``"operator"``, ``"backward"`` or ``"compiled"``.
            subject: The kernel, the node or the program.
            inputs: Its inputs; for a node, its cotangents.
            compute: What runs it.
        """
        ...


_observers: list[Observer] = []
_lock = threading.Lock()


def add(observer: Observer) -> None:
    """Tell ``observer`` of what runs from now on, in all threads."""
    with _lock:
        _observers.append(observer)
        if len(_observers) == 1:
            _install()


def remove(observer: Observer) -> None:
    """Tell it no longer."""
    with _lock:
        _observers.remove(observer)
        if not _observers:
            _uninstall()


def _around(kind: str, subject: Any, inputs: Any, compute: Callable[[], Any]) -> Any:
    # Traced operations do not run yet.
    if modes.trace is not None:
        return compute()
    for observer in tuple(_observers):
        compute = _nested(observer, kind, subject, inputs, compute)
    return compute()


def _nested(
    observer: Observer, kind: str, subject: Any, inputs: Any, inner: Callable[[], Any]
) -> Callable[[], Any]:
    return lambda: observer.around(kind, subject, inputs, inner)


_run, _run_with_constants = dispatch.run, dispatch.run_with_constants
_run_node, _run_on = engine.Backward._run_node, Program.run_on


def _watched_run(kernel: Any, inputs: tuple[Any, ...]) -> Any:
    return _around("operator", kernel, inputs, lambda: _run(kernel, inputs))


def _watched_run_with_constants(kernel: Any, tensors: Any, constants: Any) -> Any:
    return _around(
        "operator", kernel, tensors, lambda: _run_with_constants(kernel, tensors, constants)
    )


def _watched_run_node(self: Any, node: Any) -> Any:
    return _around("backward", node, (), lambda: _run_node(self, node))


def _watched_run_on(self: Any, leaves: Any, inputs: Any) -> Any:
    return _around("compiled", self, inputs, lambda: _run_on(self, leaves, inputs))


# By name, what modules of flambeau have imported, and what watches it.
_FUNCTIONS = {
    "run": (_run, _watched_run),
    "run_with_constants": (_run_with_constants, _watched_run_with_constants),
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
    """The globals of flambeau's modules, and what stands in them outside of function modes."""
    here = __name__
    for name, module in list(sys.modules.items()):
        if name.startswith("flambeau.") and name != here and module is not None:
            yield vars(module)
    yield function_modes.kept_names
