"""The events of a profile, averages by name, tables, and trace files for Perfetto."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flambeau.profiler import text

_NANOSECONDS = 1000.0


@dataclasses.dataclass(eq=False)
class FunctionEvent:
    """One call.

    Attributes:
        name: The name of the operation.
        start: The start time, in nanoseconds.
        end: The time at which its results were ready.
        dispatched: The time at which the call returned; the rest is waiting for a device.
        thread: The thread of the call.
        cpu_parent: The enclosing call.
        cpu_children: The calls nested in it.
        input_shapes: The shapes of its tensors, if recorded.
        memory: The bytes of its results, if recorded.
        flops: The floating-point operations, if recorded and known.
        category: The kind: an operator, a module, a range, a step.
        module: The class of the module, if it is a module's call.
        owner: The path of the module, or the name of the range, that its time belongs to, if any.
        is_backward: Whether it is a backward node, or runs inside one.
    """

    name: str
    start: int
    thread: int
    category: str
    end: int = 0
    dispatched: int = 0
    cpu_parent: FunctionEvent | None = None
    cpu_children: list[FunctionEvent] = dataclasses.field(default_factory=list)
    input_shapes: list[list[int]] = dataclasses.field(default_factory=list)
    memory: int = 0
    flops: int = 0
    module: str = ""
    owner: str = ""
    is_backward: bool = False

    @property
    def key(self) -> str:
        """The name by which events are averaged."""
        return self.name

    count = 1

    @property
    def device_time_total(self) -> float:
        """Microseconds of waiting for a device other than the CPU, including nested calls."""
        own = (self.end - self.dispatched) / _NANOSECONDS if self.dispatched else 0.0
        return own + sum(each.device_time_total for each in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """Like `device_time_total`, without nested calls."""
        return (self.end - self.dispatched) / _NANOSECONDS if self.dispatched else 0.0

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from start to end, without waiting for a device."""
        return (self.end - self.start) / _NANOSECONDS - self.device_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """Like `cpu_time_total`, without nested calls."""
        return self.cpu_time_total - sum(each.cpu_time_total for each in self.cpu_children)

    cpu_time = cpu_time_total
    device_time = device_time_total

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name} cpu_time={_time(self.cpu_time_total)}>"


@dataclasses.dataclass(eq=False)
class FunctionEventAvg:
    """The average of all calls with one name, or one name and shapes; times are in microseconds."""

    key: str
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    device_time_total: float = 0.0
    self_device_time_total: float = 0.0
    cpu_memory_usage: int = 0
    flops: int = 0
    input_shapes: Any = ""

    @property
    def cpu_time(self) -> float:
        """The mean of ``cpu_time_total``."""
        return self.cpu_time_total / max(self.count, 1)

    @property
    def device_time(self) -> float:
        """The mean of ``device_time_total``."""
        return self.device_time_total / max(self.count, 1)

    def add(self, event: Any) -> FunctionEventAvg:
        """Add a call, or another average."""
        self.count += event.count
        self.cpu_time_total += event.cpu_time_total
        self.self_cpu_time_total += event.self_cpu_time_total
        self.device_time_total += event.device_time_total
        self.self_device_time_total += event.self_device_time_total
        self.cpu_memory_usage += getattr(event, "memory", 0) or getattr(
            event, "cpu_memory_usage", 0
        )
        self.flops += event.flops
        return self

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} "
            f"self_cpu_time={_time(self.self_cpu_time_total)} cpu_time={_time(self.cpu_time)} "
            f"input_shapes={self.input_shapes}>"
        )


class EventList(list[Any]):
    """A list of calls or averages."""

    @property
    def self_cpu_time_total(self) -> float:
        """Total microseconds of all calls."""
        return sum(each.self_cpu_time_total for each in self)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:  # fmt: skip
        """Averages by name, or by name and input shapes."""
        sums: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shapes else ""
            found = sums.setdefault((event.name, shapes), FunctionEventAvg(event.name))
            found.input_shapes = event.input_shapes if group_by_input_shapes else ""
            found.add(event)
        return EventList(sums.values())

    def total_average(self) -> FunctionEventAvg:
        """All calls as one average."""
        total = FunctionEventAvg("Total")
        for each in self:
            total.add(each)
        return total

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80,
        header: str | None = None, top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """The events as a table.

        Args:
            sort_by: The attribute to sort by in descending order, such as
                ``"self_cpu_time_total"``.
            row_limit: The maximum number of rows; -1 for all.
            max_src_column_width: Accepted for compatibility.
            max_name_column_width: The maximum width of names.
            max_shapes_column_width: The maximum width of shapes.
            header: A line above the table.
            top_level_events_only: Only calls that are not nested.
            time_unit: ``"us"``, ``"ms"`` or ``"s"``; by default chosen for each time.
        """
        events = [
            each
            for each in self
            if not top_level_events_only or getattr(each, "cpu_parent", None) is None
        ]
        if sort_by is not None:
            events.sort(key=lambda each: getattr(each, _attribute(sort_by)), reverse=True)
        rows = events if row_limit < 0 else events[:row_limit]
        total = self.total_average()
        columns = _columns(total, rows, max_name_column_width, max_shapes_column_width, time_unit)
        widths = [max(map(len, [title, *cells])) for title, cells in columns]
        rule = "  ".join("-" * width for width in widths)
        lines = [rule, _line([title for title, _ in columns], widths), rule]
        lines += [
            _line([cells[i] for _, cells in columns], widths) for i in range(len(rows))
        ]  # fmt: skip
        lines += [rule, f"Self CPU time total: {_time(total.self_cpu_time_total, time_unit)}"]
        if total.self_device_time_total:
            lines.append(f"Waited for the device: {_time(total.self_device_time_total, time_unit)}")
        return "\n".join([*([header] if header else []), *lines]) + "\n"

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: Any) -> None:
        """Write a trace file for Perfetto and Chrome's tracing page."""
        write_trace(path, self, {})


def _attribute(name: str) -> str:
    """The current name of an attribute that was renamed."""
    return name.replace("cuda_", "device_")


def _columns(
    total: Any, rows: list[Any], name_width: int, shapes_width: int, unit: str | None
) -> list[tuple[str, list[str]]]:
    whole = total.self_cpu_time_total
    columns = [
        ("Name", [_cut(each.key, name_width) for each in rows]),
        ("Self CPU %", [_percent(each.self_cpu_time_total, whole) for each in rows]),
        ("Self CPU", [_time(each.self_cpu_time_total, unit) for each in rows]),
        ("CPU total %", [_percent(each.cpu_time_total, whole) for each in rows]),
        ("CPU total", [_time(each.cpu_time_total, unit) for each in rows]),
        ("CPU time avg", [_time(each.cpu_time, unit) for each in rows]),
    ]
    if total.self_device_time_total:
        columns += [
            ("Device wait", [_time(each.device_time_total, unit) for each in rows]),
            ("Device wait avg", [_time(each.device_time, unit) for each in rows]),
        ]
    if total.cpu_memory_usage:
        memory = [getattr(e, "cpu_memory_usage", getattr(e, "memory", 0)) for e in rows]
        columns.append(("Mem of results", [text.size(each) for each in memory]))
    columns.append(("# of Calls", [str(each.count) for each in rows]))
    if any(each.input_shapes for each in rows):
        shapes = [_cut(str(each.input_shapes), shapes_width) for each in rows]
        columns.append(("Input Shapes", shapes))
    if total.flops:
        columns.append(("Total MFLOPs", [_millions(each.flops) for each in rows]))
    return columns


def _line(cells: list[str], widths: list[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "NaN"


def _millions(flops: int) -> str:
    return f"{flops / 1e6:.3f}" if flops else "--"


_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def _time(microseconds: float, unit: str | None = None) -> str:
    if unit is None:
        unit = next((u for u in ("s", "ms") if abs(microseconds) >= _UNITS[u]), "us")
    return f"{microseconds / _UNITS[unit]:.3f}{unit}"


def write_trace(path: Any, events: Iterable[FunctionEvent], metadata: dict[str, Any]) -> None:
    """Write events in Chrome's trace format, compressed if ``path`` ends in .gz."""
    process = os.getpid()
    written = [
        {
            "ph": "X", "cat": each.category, "name": each.name, "pid": process, "tid": each.thread,
            "ts": each.start / _NANOSECONDS, "dur": (each.end - each.start) / _NANOSECONDS,
            "args": _arguments(each),
        }
        for each in events
    ]  # fmt: skip
    content = json.dumps({"schemaVersion": 1, **metadata, "traceEvents": written}).encode()
    if str(path).endswith(".gz"):
        import gzip

        content = gzip.compress(content)
    Path(path).write_bytes(content)


def _arguments(event: FunctionEvent) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if event.input_shapes:
        found["Input Dims"] = event.input_shapes
    if event.module:
        found["Class"] = event.module
    if event.dispatched:
        found["Device wait (us)"] = event.self_device_time_total
    if event.memory:
        found["Bytes of results"] = event.memory
    if event.flops:
        found["flops"] = event.flops
    return found
