"""Recording calls: when they begin, when their results are there, and what they are a part of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import jax
from jax.core import Tracer

from flambeau.core.overrides import OverrideNeeded
from flambeau.core.tensor import Tensor
from flambeau.profiler import observing
from flambeau.profiler.events import FunctionEvent
from flambeau.profiler.flops import flops_of


class _Open(threading.local):
    """The calls of a thread that have not ended, the innermost last."""

    stack: tuple[FunctionEvent, ...] = ()


_open = _Open()


class Recorder:
    """Records what runs between `start` and `stop`, in all threads.

    Each program is waited for, so that its time is its own.

    Args:
        shapes: Whether the shapes of inputs are noted.
        memory: Whether the sizes of results are noted.
        flops: Whether floating-point operations are counted.
    """

    shapes: bool
    memory: bool
    flops: bool

    def __init__(self, shapes: bool = False, memory: bool = False, flops: bool = False) -> None:
        self.shapes, self.memory, self.flops = shapes, memory, flops
        self.events: list[FunctionEvent] = []
        self._optimizer_hooks: list[Any] = []

    def start(self) -> None:
        """Begin."""
        from flambeau.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        observing.add(self)
        _recorders.append(self)
        steps: list[Any] = []

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            name = f"Optimizer.step#{type(optimizer).__name__}.step"
            steps.append(self.begin(name, "user_annotation"))

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            if steps:
                self.finish(steps.pop())

        self._optimizer_hooks = [
            register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after),
        ]  # fmt: skip

    def stop(self) -> None:
        """End."""
        for each in self._optimizer_hooks:
            each.remove()
        _recorders.remove(self)
        observing.remove(self)

    def around(self, kind: str, subject: Any, inputs: Any, compute: Callable[[], Any]) -> Any:
        """See `observing.Observer`."""
        event = self.begin(_name(kind, subject), _CATEGORIES[kind])
        try:
            result = compute()
        except OverrideNeeded:
            # The arguments say what happens, and it will be seen when it does.
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
        if self.flops and kind == "operator":
            event.flops = flops_of(subject, inputs, result)
        self.finish(event)
        return result

    def begin(self, name: str, category: str) -> FunctionEvent:
        """A call that begins now."""
        event = FunctionEvent(name, 0, threading.get_native_id(), category)
        if _open.stack:
            event.cpu_parent = _open.stack[-1]
        _open.stack = (*_open.stack, event)
        event.start = time.perf_counter_ns()
        return event

    def finish(self, event: FunctionEvent) -> None:
        """The call has ended."""
        event.end = time.perf_counter_ns()
        self.abandon(event)
        if event.cpu_parent is not None:
            event.cpu_parent.cpu_children.append(event)
        self.events.append(event)

    def abandon(self, event: FunctionEvent) -> None:
        """The call is none, or has ended."""
        _open.stack = tuple([each for each in _open.stack if each is not event])


#: Those that record now.
_recorders: list[Recorder] = []
_CATEGORIES = {"operator": "cpu_op", "backward": "cpu_op", "compiled": "cpu_op"}


def recording() -> Recorder | None:
    """The recorder that was started last, if any."""
    return _recorders[-1] if _recorders else None


def _name(kind: str, subject: Any) -> str:
    if kind == "operator":
        return f"aten::{subject.name}"
    return subject.name() if kind == "backward" else "compiled function"


def _arrays(result: Any) -> list[Any]:
    """The arrays of a result that have numbers."""
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
