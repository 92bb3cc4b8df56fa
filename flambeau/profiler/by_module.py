"""`flambeau.profile`: the time of a block by module, and a trace file."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from flambeau.profiler import profiler, text
from flambeau.profiler.events import FunctionEvent
from flambeau.profiler.xla import Operation, recorded

# The maximum number of XLA's operations in a table.
_MOST_OPERATIONS = 30


@dataclasses.dataclass
class ProfileRow:
    """The time of one module, range, or kind of operation; in microseconds.

    Attributes:
        path: The module's path from the outermost module that was called, which is named by its
            class; or the name of a range, an optimizer's step or a compiled function.
        class_name: The module's class; ``""`` for all else.
        calls: How often it was called.
        total: The time of its calls, with the modules called inside.
        self_time: Its own time, without these.
        backward: The time of the backward nodes of its own operators.
        share: ``self_time`` and ``backward`` as a part of the whole.
    """

    path: str
    class_name: str = ""
    calls: int = 0
    total: float = 0.0
    self_time: float = 0.0
    backward: float = 0.0
    share: float = 0.0


class profile(profiler.profile):
    """A context manager that records the time of its block by module; ``print`` shows the table.

    The time of a call is the time until its results are ready: the profile waits for each operator,
    and no sequence of operators is fused, so the block takes longer than without a profile. The
    first calls of an operator or a compiled function also compile; run the block once before.

    A compiled function is one row, since its modules are parts of one program. With ``xla`` the
    operations of such programs are listed too, under XLA's names: XLA fuses operators, so the names
    do not tell the modules.

    Args:
        xla: Whether to record the operations of compiled functions, by `jax.profiler.trace`, of
            which there can be one at a time.
        options: The arguments of `profiler.profile`, such as ``record_shapes``.

    >>> import flambeau
    >>> from flambeau import nn
    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    >>> with flambeau.profile() as profiled:
    ...     _ = model(flambeau.ones(2, 3))
    >>> [(row.path, row.class_name, row.calls) for row in profiled.rows()[:3]]
    [('Sequential', 'Sequential', 1), ('Sequential.0', 'Linear', 1), ('Sequential.1', 'ReLU', 1)]
    """

    def __init__(self, *, xla: bool = False, **options: Any) -> None:
        super().__init__(**{"with_modules": True, **options})
        self._xla = xla
        #: The operations of compiled functions, if ``xla`` is true, by falling time.
        self.operations: list[Operation] = []
        self._blocks = contextlib.ExitStack()

    def __enter__(self) -> profile:
        super().__enter__()
        return self

    def start(self) -> None:
        """Start the first step."""
        with contextlib.ExitStack() as blocks:
            if self._xla:
                self.operations = blocks.enter_context(recorded())
            super().start()
            self._blocks = blocks.pop_all()

    def stop(self) -> None:
        """Stop; the recording is passed to ``on_trace_ready``."""
        with self._blocks:
            super().stop()

    def rows(self) -> list[ProfileRow]:
        """The rows of the table, in order of the first call; last the time between calls."""
        events = self.events()
        found: dict[str, ProfileRow] = {}
        for event in events:
            name = event.owner or "(operators outside modules)"
            _add(found.setdefault(name, ProfileRow(name)), event)
        rows = [*found.values(), ProfileRow("(other code)", self_time=_between(events))]
        rows[-1].total = rows[-1].self_time
        whole = sum(each.self_time + each.backward for each in rows)
        for each in rows:
            each.share = (each.self_time + each.backward) / whole if whole else 0.0
        return rows

    def save(self, path: Any) -> None:
        """Write a trace file, which https://ui.perfetto.dev and chrome://tracing open.

        Args:
            path: The file; compressed if the name ends in .gz.
        """
        self.export_chrome_trace(path)

    def __str__(self) -> str:
        rows = self.rows()
        columns = [
            ("Module", [each.path for each in rows]),
            ("Class", [each.class_name for each in rows]),
            ("Calls", [str(each.calls or "") for each in rows]),
            ("Total", [text.duration(each.total) for each in rows]),
            ("Self", [text.duration(each.self_time) for each in rows]),
            ("Backward", [text.duration(each.backward) if each.backward else "" for each in rows]),
            ("Share", [f"{100 * each.share:.1f}%" for each in rows]),
        ]
        lines = text.table(columns, 2)
        if self.operations:
            lines += ["", *self._table_of_operations()]
        return "\n".join(lines)

    def _table_of_operations(self) -> list[str]:
        rows = self.operations[:_MOST_OPERATIONS]
        whole = sum(each.time for each in self.operations)
        columns = [
            ("XLA's operation", [each.name for each in rows]),
            ("Program", [each.program for each in rows]),
            ("Calls", [str(each.calls) for each in rows]),
            ("Time", [text.duration(each.time) for each in rows]),
            ("Share", [f"{100 * each.time / whole if whole else 0:.1f}%" for each in rows]),
        ]
        return text.table(columns, 2)


def _add(row: ProfileRow, event: FunctionEvent) -> None:
    """Add a call to the row of its owner."""
    own = _duration(event) - sum(map(_duration, event.cpu_children))
    if event.is_backward:
        row.backward += own
        return
    row.self_time += own
    if event.name == row.path or not event.owner:
        row.calls += 1
        row.class_name = event.module or row.class_name
    if all(each.owner != event.owner for each in _around(event)):
        row.total += _duration(event)


def _between(events: list[FunctionEvent]) -> float:
    """Microseconds between the calls of the thread that made the first one."""
    roots = [e for e in events if e.cpu_parent is None and e.thread == events[0].thread]
    if not roots:
        return 0.0
    span = (max(e.end for e in roots) - min(e.start for e in roots)) / 1000
    return max(0.0, span - sum(map(_duration, roots)))


def _around(event: FunctionEvent) -> Iterator[FunctionEvent]:
    """The calls around a call."""
    while (parent := event.cpu_parent) is not None:
        yield parent
        event = parent


def _duration(event: FunctionEvent) -> float:
    """Microseconds from the start to the results."""
    return (event.end - event.start) / 1000
