"""Which sequences of eager calls run as one program, by the user's lines."""

from __future__ import annotations

from collections import Counter


class Loop:
    """A sequence that has a program.

    Attributes:
        calls: How many calls it has.
        begins: The line of the first one.
        ends: The line after the last one, which needed a value or ended the step.
        runs: How often one program has computed it.
        left: How often it did not come to its end, by the line of the call that came instead.
    """

    def __init__(self, calls: int, begins: str, ends: str) -> None:
        self.calls = calls
        self.begins = begins
        self.ends = ends
        self.runs = 0
        self.left: Counter[str] = Counter()

    def __str__(self) -> str:
        lines = f"{self.calls} calls from {self.begins} to {self.ends}"
        text = f"{lines}: one program, run {_times(self.runs)}"
        for line, count in self.left.most_common():
            text += f"\n  left {_times(count)} at {line}"
        return text


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def report(loops: list[Loop]) -> str:
    """The text of `flambeau.compiler.explain` for eager code on this thread."""
    if not loops:
        return "no sequence of eager calls has repeated often enough to be fused"
    return "\n".join(map(str, loops))
