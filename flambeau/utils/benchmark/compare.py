"""Measurements side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from flambeau.utils.benchmark.measurement import Measurement, size_of, unit_of


class Compare:
    """A table of measurements: a row for each case, a column for each variant.

    Args:
        results: The measurements; those with one label make one table.
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = list(results)
        self._trims = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show three digits."""
        self._trims = True

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted for compatibility; the table has no colors."""

    def highlight_warnings(self) -> None:
        """Accepted for compatibility."""

    def print(self) -> None:
        """Write the table on the standard output."""
        sys.stdout.write(f"{self}\n")

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = list(dict.fromkeys(each.task_spec.label for each in merged))
        return "\n".join(
            self._table(label, [e for e in merged if e.task_spec.label == label])
            for label in labels
        )

    def _table(self, label: str | None, results: list[Measurement]) -> str:
        unit = unit_of(min(each.median for each in results))
        columns = list(dict.fromkeys(each.task_spec.description or "" for each in results))
        cells: dict[str, dict[str, str]] = {}
        for each in results:
            row = each.task_spec.sub_label or each.task_spec.stmt
            time = each.median / size_of(unit)
            shown = f"{time:.3g}" if self._trims else f"{time:.1f}"
            cells.setdefault(row, {})[each.task_spec.description or ""] = shown
        first = max(len(row) for row in cells)
        widths = [
            max(len(name), *(len(row.get(name, "")) for row in cells.values())) for name in columns
        ]
        lines = [f"[{label or ''}]".center(first + sum(widths) + 5 * len(widths), "-")]
        lines.append(_row("", columns, first, widths))
        lines += [_row(n, [r.get(c, "") for c in columns], first, widths) for n, r in cells.items()]
        return "\n".join([*lines, "", f"Times are in {_WORDS[unit]}."])


_WORDS = {"s": "seconds (s)", "ms": "milliseconds (ms)", "us": "microseconds (us)",
          "ns": "nanoseconds (ns)"}  # fmt: skip


def _row(name: str, cells: list[str], first: int, widths: list[int]) -> str:
    shown = [cell.center(width) for cell, width in zip(cells, widths, strict=True)]
    return "  |  ".join([name.ljust(first), *shown])
