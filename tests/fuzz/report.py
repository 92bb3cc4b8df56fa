"""What a search found, and the command line that all searches share."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Disagreement:
    """One case in which two of PyTorch, eager and compiled differ."""

    title: str
    """One line: which two differ, and in what."""
    program: str
    """Runnable Python that shows it."""

    def __str__(self) -> str:
        return f"# {self.title}\n{self.program.rstrip()}\n"


@dataclass
class Report:
    """Counts of what was tried, and the disagreements that were found."""

    name: str
    seed: int
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    disagreements: list[Disagreement] = field(default_factory=list)

    def __str__(self) -> str:
        counts = "\n".join(f"  {count:>9,} {what}" for what, count in self.counts.items())
        found = "\n".join(str(each) for each in self.disagreements)
        head = f"{self.name}: seed {self.seed}, {self.seconds:.0f} s"
        return f"{found}\n{head}\n{counts}\n  {len(self.disagreements):>9,} disagreements\n"

    def add(self, other: Report) -> None:
        """Count what another part of the same search has found."""
        self.counts.update(other.counts)
        self.disagreements.extend(other.disagreements)

    def add_line(self, line: str) -> int:
        """Count what a process of the search has written on a line; gives how far it has come."""
        index, counts, found = json.loads(line)
        self.counts.update(counts)
        for title, program in found:
            self.disagreements.append(Disagreement(title, program))
            sys.stderr.write(f"{self.disagreements[-1]}\n")
        return index


Search = Callable[[float | None, int, int | None], Report]


def main(run: Search) -> int:
    """Run a search as the command line asks; the exit status is 1 if it found a disagreement."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=None, help="stop after this long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=None, help="stop after so many cases")
    arguments = parser.parse_args()
    if arguments.seconds is None and arguments.limit is None:
        arguments.seconds = 60.0
    report = run(arguments.seconds, arguments.seed, arguments.limit)
    sys.stdout.write(str(report))
    return 1 if report.disagreements else 0
