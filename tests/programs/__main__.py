"""``python -m tests.programs [--write] [NAME ...]``: run programs with both libraries."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.programs.running import BUILD, CASES, HERE, Failed, run_on

PAGE = HERE.parents[1] / "docs" / "compatibility.md"
RESULTS = HERE / "results.json"
BEGIN, END = "<!-- programs: begin -->", "<!-- programs: end -->"
# The largest relative difference of what both libraries give.
TOLERANCE = 1e-3
KINDS = (
    "eager first step", "eager later step", "eager settled step",
    "compiled first step", "compiled later step",
)  # fmt: skip


def run(path: Path) -> dict[str, Any]:
    """Run one program with both libraries, and compare.

    Returns:
        What is kept of it: the ``version`` of the package, what was ``run``, the largest relative
        ``difference``, whether flambeau ``compiled`` the step or ran it eagerly, ``seconds`` of
        flambeau's and PyTorch's steps, PyTorch's ``losses``, and the ``problem``, the last line of
        the error that ended it.
    """
    numbers: list[Any] = []
    facts: list[dict[str, Any]] = []
    problem = ""
    for side in ("torch", "flambeau"):
        folder = BUILD / "results" / f"{path.stem}-{side}"
        try:
            run_on(side, path, folder, other=BUILD / "results" / f"{path.stem}-torch")
        except Failed as error:
            problem = f"{'PyTorch' if side == 'torch' else 'flambeau'}: {error}"
        known = folder / "facts.json"
        facts.append(json.loads(known.read_text()) if known.exists() else {})
        if problem:
            break
        numbers.append(np.load(folder / "numbers.npz"))
    theirs, ours = (*facts, {})[:2]
    if ours.get("eager because"):
        print(ours["eager because"], flush=True)
    if not problem and "compiled error" in ours:
        problem = f"compiled: {ours['compiled error'].strip().splitlines()[-1][:300]}"
    result: dict[str, Any] = {
        "version": theirs.get("version", ""),
        "run": theirs.get("run", ""),
        "difference": largest(*numbers) if len(numbers) == 2 else None,
        "compiled": not ours.get("eager because"),
        "seconds": {kind: [ours.get(kind), theirs.get(kind)] for kind in KINDS},
        "problem": problem,
    }
    if numbers and "eager losses" in numbers[0].files:
        result["losses"] = [round(each, 7) for each in numbers[0]["eager losses"].tolist()]
    return result


def largest(theirs: Any, ours: Any) -> float:
    """The largest difference, relative to the largest number of the same kind.

    What flambeau's compiled step gives is compared with its eager step, and that with PyTorch's
    eager step: PyTorch's compiled step need not agree with its own eager one.
    """
    worst = 0.0
    for name in theirs.files:
        if name.startswith("compiled"):
            continue
        if name not in ours.files:
            return float("inf")
        one, other = theirs[name].astype("float64"), ours[name].astype("float64")
        if one.shape != other.shape or not np.array_equal(np.isfinite(one), np.isfinite(other)):
            return float("inf")
        one, other = one[np.isfinite(one)], other[np.isfinite(other)]
        if one.size:
            worst = max(worst, float(abs(one - other).max() / max(1e-6, abs(one).max())))
    for name in ours.files:
        eager = name.removeprefix("compiled ")
        if eager != name:
            one = ours[f"eager {eager}" if f"eager {eager}" in ours.files else eager]
            worst = max(worst, float(abs(one - ours[name]).max() / max(1e-6, abs(one).max())))
    return worst


def table(results: dict[str, Any]) -> str:
    """The results as Markdown; times are flambeau's, with PyTorch's in parentheses."""
    lines = [
        "| package | what is run | largest difference | first step, later, settled | compiled |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, result in sorted(results.items()):
        said = result["problem"].replace("|", "/") or f"{result['difference']:.0e}"
        times = {kind: _times(result["seconds"].get(kind, (None, None))) for kind in KINDS}
        first, later, settled, compiled, compiled_later = times.values()
        how = "" if result["compiled"] else "runs eagerly: "
        cells = [
            f"{name} {result['version']}", result["run"], said, f"{first}, {later}, {settled}",
            f"{how}{compiled}, {compiled_later}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _times(seconds: list[float | str | None]) -> str:
    ours, theirs = map(_time, seconds)
    return f"{ours} ({theirs})"


def _time(seconds: float | str | None) -> str:
    if seconds is None:
        return "-"
    if isinstance(seconds, str):
        return seconds
    if seconds >= 0.1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1000:.{0 if seconds >= 0.01 else 1}f} ms"


def write(results: dict[str, Any]) -> None:
    """Keep the results, beside those of other programs, and write the documentation's table."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    names = {path.stem for path in CASES}
    known = {name: each for name, each in {**known, **results}.items() if name in names}
    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(known)}\n{END}{rest.partition(END)[2]}")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    parser.add_argument("names", nargs="*", help="files of cases, without .py")
    parser.add_argument(
        "--write", action="store_true", help="keep the results, and write the table"
    )
    chosen = parser.parse_args()
    results = {}
    for path in CASES:
        if not chosen.names or path.stem in chosen.names:
            found = results[path.stem] = run(path)
            said = found["problem"] or f"{found['difference']:.1e}"
            print(f"{path.stem} {found['version']}: {said}", flush=True)
            if chosen.write:
                write({path.stem: found})
    sys.exit(any(each["problem"] or each["difference"] > TOLERANCE for each in results.values()))


if __name__ == "__main__":
    main()
