"""Every search in turn: ``python -m tests.fuzz --seconds 3600 --seed 1``."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

from tests.fuzz.report import Report, main

SEARCHES = (
    "programs",
    "fused",
    "situations",
    "answers",
    "numbers",
    "second_derivatives",
    "files",
    "resuming",
)


def run(seconds: float | None, seed: int, limit: int | None) -> Report:
    """Give each search its share of the time."""
    names = [name for name in SEARCHES if find_spec(f"tests.fuzz.{name}") is not None]
    total = Report("all searches", seed)
    for name in names:
        search = import_module(f"tests.fuzz.{name}").run
        report = search(seconds and seconds / len(names), seed, limit)
        total.seconds += report.seconds
        total.add(report)
    return total


if __name__ == "__main__":
    sys.exit(main(run))
