"""Recording calls: their start, the time of their results, and their nesting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import jax
from jax.core import Tracer

from flambeau.core.operators.overrides import OverrideNeeded
from flambeau.core.programs.gears import gears
from flambeau.core.values.tensor import Tensor
from flambeau.profiler import observing
from flambeau.profiler.events import FunctionEvent
from flambeau.profiler.flops import flops_of
from flambeau.profiler.paths import Paths


class _Open(threading.local):
    """The open calls of a thread, innermost last."""

    stack: tuple[FunctionEvent, ...] = ()


_open = _Open()


class Recorder:
    """Records the operations between `start` and `stop`, in all threads.

    It waits for each program, and no sequence of calls is fused, so that times are attributed
    correctly.

    Args:
        shapes: Whether to record the shapes of inputs.
        memory: Whether to record the sizes of results.
        flops: Whether to count floating-point operations.
        modules: Whether to record calls of modules.
    """

    sees_traces = False

    shapes: bool
    memory: bool
    flops: bool
    modules: bool

    def __init__(
        self, shapes: bool = False, memory: bool = False, flops: bool = False, modules: bool = False
    ) -> None:
        self.shapes, self.memory, self.flops, self.modules = shapes, memory, flops, modules
        self.events: list[FunctionEvent] = []
        self._paths = Paths()
        # The owners of the nodes whose operators ran inside a module.
        self._owners: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def start(self) -> None:
        """Start recording."""
        # A fused sequence would compute the results of one call in another.
        self._gears = gears(fuse=False)
        observing.add(self)
        _recorders.append(self)

    def stop(self) -> None:
        """Stop recording."""
        _recorders.remove(self)
        observing.remove(self)
        self._gears.__exit__()

    def around(self, kind: str, subject: Any, inputs: Any, compute: Callable[[], Any]) -> Any:
        """See `observing.Observer`."""
        if kind == "module":
            return self._around_module(subject, compute) if self.modules else compute()
        name = _name(kind, subject)
        if kind == "optimizer" and _open.stack and _open.stack[-1].name == name:
            # A step that calls its superclass's step is one step.
            return compute()
        event = self.begin(name, _CATEGORIES[kind])
        if kind == "backward":
            event.is_backward = True
            event.owner = self._owners.get(subject) or event.owner or "(other backward nodes)"
        elif kind == "compiled":
            event.owner = event.owner or event.name
        try:
            result = compute()
        except OverrideNeeded:
            # The operation is being traced, and is recorded when it runs.
            self.abandon(event)
            raise
        except BaseException:
            self.finish(event)
            raise
        results = _arrays(result)
        if any(each.devices().pop().platform != "cpu" for each in results):
            event.dispatched = time.perf_counter_ns()
        jax.block_until_ready(results)
        if self.shapes:
            event.input_shapes = [_shape(each) for each in inputs]
        if self.memory:
            event.memory = sum(each.nbytes for each in results)
        if kind == "operator":
            self._note(event, subject, inputs, result)
        self.finish(event)
        return result

    def _note(self, event: FunctionEvent, kernel: Any, inputs: Any, result: Any) -> None:
        """Note the operations of an operator, and the module that its backward node belongs to."""
        if self.flops:
            event.flops = flops_of(kernel, inputs, result)
        first = result[0] if isinstance(result, tuple | list) else result
        if event.owner and getattr(first, "grad_fn", None) is not None:
            self._owners[first.grad_fn] = event.owner

    def _around_module(self, module: Any, compute: Callable[[], Any]) -> Any:
        path = self._paths.enter(module)
        event = self.begin(path, "module")
        event.owner, event.module = path, type(module).__name__
        try:
            return compute()
        finally:
            self.finish(event)

    def begin(self, name: str, category: str) -> FunctionEvent:
        """Open a call."""
        event = FunctionEvent(name, 0, threading.get_native_id(), category)
        if _open.stack:
            event.cpu_parent = _open.stack[-1]
            event.owner = event.cpu_parent.owner
            event.is_backward = event.cpu_parent.is_backward
        elif category == "user_annotation":
            event.owner = name
        _open.stack = (*_open.stack, event)
        event.start = time.perf_counter_ns()
        return event

    def finish(self, event: FunctionEvent) -> None:
        """Close a call."""
        event.end = time.perf_counter_ns()
        self.abandon(event)
        if event.cpu_parent is not None:
            event.cpu_parent.cpu_children.append(event)
        self.events.append(event)

    def abandon(self, event: FunctionEvent) -> None:
        """Discard a call, unless it is closed."""
        _open.stack = tuple([each for each in _open.stack if each is not event])


#: The active recorders.
_recorders: list[Recorder] = []
_CATEGORIES = {
    "operator": "cpu_op", "backward": "cpu_op", "compiled": "cpu_op",
    "optimizer": "user_annotation",
}  # fmt: skip


def recording() -> Recorder | None:
    """The recorder that was started last, or ``None``."""
    return _recorders[-1] if _recorders else None


def _name(kind: str, subject: Any) -> str:
    if kind == "operator":
        return f"aten::{subject.name}"
    if kind == "optimizer":
        return f"Optimizer.step#{type(subject).__name__}.step"
    return subject.name() if kind == "backward" else f"compiled function {subject.name}"


def _arrays(result: Any) -> list[Any]:
    """The concrete arrays of a result."""
    found: list[Any] = []
    for each in result if isinstance(result, tuple | list) else (result,):
        if isinstance(each, Tensor):
            each = each._cell.array if each._view is None else each._read()
        if isinstance(each, jax.Array) and not isinstance(each, Tracer):
            found.append(each)
    return found


def _shape(value: Any) -> list[int]:
    shape = getattr(value, "shape", ())
    return list(shape)
