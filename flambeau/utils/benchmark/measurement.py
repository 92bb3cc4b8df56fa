"""The result of measuring a statement."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Any

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (0.0, "ns"))
_SIZES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """The statement that is measured, and its labels."""

    stmt: str
    setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        name = self.label or self.stmt
        return f"{name}: {self.sub_label}" if self.sub_label else name


@dataclasses.dataclass
class Measurement:
    """Times of a statement, in seconds.

    Attributes:
        number_per_run: How often the statement ran in each measurement.
        raw_times: The time of each.
        task_spec: The label of the measurement, or its statement.
        metadata: Additional data.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    @property
    def times(self) -> list[float]:
        """The time of one run of the statement, for each measurement."""
        return [each / self.number_per_run for each in self.raw_times]

    @property
    def mean(self) -> float:
        """The mean of `times`."""
        return statistics.mean(self.times)

    @property
    def median(self) -> float:
        """The median of `times`."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The interquartile range of `times`."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def title(self) -> str:
        """The label of the measurement, or its statement."""
        return self.task_spec.title

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in TaskSpec.__dataclass_fields__:
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @staticmethod
    def merge(measurements: Any) -> list[Measurement]:
        """One measurement for each statement."""
        found: dict[TaskSpec, Measurement] = {}
        for each in measurements:
            times = found.setdefault(each.task_spec, Measurement(1, [], each.task_spec))
            times.raw_times.extend(each.times)
        return list(found.values())

    def __repr__(self) -> str:
        unit = unit_of(self.median)
        size = _SIZES[unit]
        lines = [f"<{type(self).__module__}.Measurement object>", self.title]
        if len(self.times) > 1:
            lines.append(f"  Median: {self.median / size:.2f} {unit}")
            lines.append(f"  IQR:    {self.iqr / size:.2f} {unit}")
        else:
            lines.append(f"  {self.median / size:.2f} {unit}")
        threads = "thread" if self.task_spec.num_threads == 1 else "threads"
        lines.append(
            f"  {len(self.times)} measurement{'s' * (len(self.times) > 1)}, {self.number_per_run} "
            f"runs per measurement, {self.task_spec.num_threads} {threads}"
        )
        return "\n".join(lines)


def unit_of(seconds: float) -> str:
    """The unit that suits a time."""
    return next(name for size, name in _UNITS if seconds >= size)


def size_of(unit: str) -> float:
    """The number of seconds in a unit."""
    return _SIZES[unit]
