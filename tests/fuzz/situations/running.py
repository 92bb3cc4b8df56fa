"""Runs situations eagerly and compiled, in worlds of their own, and compares."""

from __future__ import annotations

import gc
import linecache
import os
import random
import sys
import time
import types
import warnings
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import flambeau
from flambeau.compile.errors import CompileWarning
from tests.fuzz.report import Disagreement, Report
from tests.fuzz.situations.situation import Situation

#: What is done between calls: nothing, the change, the change back.
_STEPS = ("", "", "", "change", "", "", "back", "", "")
_MODULE = "situation"
# The types of errors that refuse a function.
_REFUSALS = ("CompileError", "NotYetMadeError", "SideEffectError", "UnansweredError")


@dataclass
class Outcome:
    """What the calls of one world gave.

    Attributes:
        results: Of each call, what can be compared: dtype, shape and bytes, or an exception's type.
        shown: The same for people.
        warned: Whether a call before the change gave a `CompileWarning`.
        told: The warnings of all calls.
        counts: How many programs there were after each call.
        failure: The error of a world that cannot be made or changed as its source says.
    """

    results: list[Any] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    warned: bool = False
    told: list[str] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    failure: str = ""


@dataclass(frozen=True)
class Verdict:
    """What came of a situation.

    Attributes:
        kind: ``"equal"``, ``"eager"`` (no program, and equal where calls may run eagerly),
            ``"warned"`` (a warning was demanded and given), or a disagreement: ``"stale"`` (another
            value than eager's), ``"refused"`` (an error where eager gives a value), ``"unwarned"``
            (no warning was given), ``"traced again"`` although nothing has changed; ``"vacuous"``:
            eager does not depend on the change, or fails before it.
        detail: What was given instead.
    """

    situation: Situation
    kind: str
    detail: str = ""

    @property
    def agrees(self) -> bool:
        return self.kind in ("equal", "eager", "warned")


class SituationReport(Report):
    """The verdicts of a run, and what the searches' reports have in common.

    Args:
        seed: Decides order and crossings.
        known: The names of situations whose failing is no news, and so no disagreement.
    """

    def __init__(self, seed: int, known: Set[str] = frozenset()) -> None:
        super().__init__("situations", seed)
        self.verdicts: list[Verdict] = []
        self.known = known

    def take(self, verdict: Verdict) -> None:
        """Count a verdict."""
        self.verdicts.append(verdict)
        self.counts[verdict.kind] += 1
        if not verdict.agrees and verdict.situation.name in self.known:
            self.counts["known to fail"] += 1
        elif not verdict.agrees:
            title = f"{verdict.kind}: {verdict.situation.name}: {verdict.detail}"
            self.disagreements.append(Disagreement(title, verdict.situation.script()))

    def table(self) -> str:
        """A line for each disagreement."""
        return "\n".join(each.title for each in self.disagreements)


def judge(situation: Situation) -> Verdict:
    """Run a situation in two worlds, one with the compiled function, and compare."""
    eager = _outcome(situation, compiled=False)
    if eager.failure:
        return Verdict(situation, "vacuous", eager.failure)
    is_dull = situation.matters and len({*map(repr, eager.results)}) == 1
    if isinstance(eager.results[0], str) or (is_dull and situation.demand == "equal"):
        return Verdict(situation, "vacuous", f"eager gives {eager.shown}")
    compiled = _outcome(situation, compiled=True)
    if situation.demand == "warning":
        return _judge_warning(situation, eager, compiled)
    if situation.demand == "refused":
        return _judge_refusal(situation, eager, compiled)
    for i, (mine, due) in enumerate(zip(compiled.results, eager.results, strict=True)):
        if mine in _REFUSALS and mine != due:
            return _judge_refusal(situation, eager, compiled)
        if mine != due:
            kind = "refused" if isinstance(mine, str) and not isinstance(due, str) else "stale"
            detail = f"call {i + 1}: {compiled.shown[i]} instead of {eager.shown[i]}"
            return Verdict(situation, kind, detail)
    if _traces_again(situation, eager, compiled.counts):
        counts = compiled.counts
        return Verdict(situation, "traced again", f"programs after each call: {counts}")
    return Verdict(situation, "equal", "; ".join(compiled.told))


def _traces_again(situation: Situation, eager: Outcome, counts: list[int]) -> bool:
    """Whether there is another program although nothing has changed for long enough."""
    # The first call after a change of a cache fills it, and runs eagerly.
    settles = max(situation.settles, 1 + ("cache" in situation.source()))
    unchanged = 0
    for i in range(1, len(_STEPS)):
        unchanged = 0 if _STEPS[i] else unchanged + 1
        is_late = unchanged >= settles and not isinstance(eager.results[i], str)
        if is_late and counts[i] > counts[i - 1]:
            return True
    return False


def _judge_refusal(situation: Situation, eager: Outcome, compiled: Outcome) -> Verdict:
    """Results must be eager's up to a first `CompileError`, and all with ``fullgraph=False``."""
    for i, (mine, due) in enumerate(zip(compiled.results, eager.results, strict=True)):
        if mine in _REFUSALS:
            break
        if mine != due:
            detail = f"call {i + 1}: {compiled.shown[i]} instead of {eager.shown[i]}"
            return Verdict(situation, "stale", detail)
    is_refused = any(each in _REFUSALS for each in compiled.results)
    again = _outcome(situation, compiled=False)
    lenient = _outcome(situation, compiled=True, fullgraph=False)
    # Clocks give no call the same results.
    if again.results == eager.results and lenient.results != eager.results:
        return Verdict(situation, "stale", f"{lenient.shown} instead of {eager.shown}")
    return Verdict(situation, "eager" if is_refused else "equal", "; ".join(compiled.told))


def _judge_warning(situation: Situation, eager: Outcome, compiled: Outcome) -> Verdict:
    if compiled.warned:
        return Verdict(situation, "warned", "; ".join(compiled.told))
    return Verdict(situation, "unwarned", f"{compiled.shown} instead of {eager.shown}")


def _outcome(situation: Situation, compiled: bool, fullgraph: bool = True) -> Outcome:
    outcome = Outcome()
    module = types.ModuleType(_MODULE)
    file = f"/situations/{situation.name}.py"
    source = situation.source()
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    environment = dict(os.environ)
    flambeau.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 (situations draw from it)
    sys.modules[_MODULE] = module
    try:
        exec(compile(source, file, "exec"), vars(module))
        run = module.target
        if compiled:
            run = flambeau.compile(module.target, fullgraph=fullgraph)
        for i, step in enumerate(_STEPS):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                if step:
                    vars(module)[step]()
                result, shown = _call(module.call, run)
            told = [each for each in told if issubclass(each.category, CompileWarning)]
            outcome.results.append(result)
            outcome.shown.append(shown)
            outcome.warned |= bool(told) and i < _STEPS.index("change")
            outcome.told += [str(each.message) for each in told]
            outcome.counts.append(getattr(run, "program_count", 0) if compiled else 0)
    except Exception as error:  # noqa: BLE001 (the source of the situation is at fault)
        outcome.failure = f"the world fails: {error!r}"
    finally:
        if "clean" in vars(module):
            module.clean()
        flambeau.set_grad_enabled(True)
        os.environ.clear()
        os.environ.update(environment)
        sys.modules.pop(_MODULE, None)
        linecache.cache.pop(file, None)
    return outcome


def _call(call: Any, run: Any) -> tuple[Any, str]:
    try:
        result = call(run, flambeau.tensor([1.0, -2.0]))
    except Exception as error:  # noqa: BLE001 (whatever it is, it is compared)
        return type(error).__name__, f"{type(error).__name__}: {str(error)[:300]}"
    return _comparable(result), str(_shown(result))


class _Elements:
    """The elements of a tensor, equal to others up to the rounding of programs."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Elements) or self.array.dtype != other.array.dtype:
            return False
        if self.array.dtype.kind not in "fc" or self.array.shape != other.array.shape:
            return np.array_equal(self.array, other.array)
        return np.allclose(self.array, other.array, rtol=1e-6, atol=1e-6, equal_nan=True)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.array.dtype} {self.array.tolist()}"


def _comparable(value: Any) -> Any:
    if isinstance(value, flambeau.Tensor):
        return _Elements(value.detach().numpy())
    if isinstance(value, list | tuple):
        return tuple(map(_comparable, value))
    return (type(value).__name__, repr(value))


def _shown(value: Any) -> Any:
    if isinstance(value, flambeau.Tensor):
        shown = value.detach().tolist()
        return shown if value.dtype is flambeau.float32 else (shown, str(value.dtype))
    return tuple(map(_shown, value)) if isinstance(value, list | tuple) else value


def run_all(
    situations: Iterable[Situation],
    seconds: float | None = None,
    seed: int = 0,
    known: Set[str] = frozenset(),
) -> SituationReport:
    """Judge situations until there are none left, or time is over."""
    report, start = SituationReport(seed, known), time.monotonic()
    for i, situation in enumerate(situations):
        if seconds is not None and time.monotonic() - start > seconds:
            break
        report.take(judge(situation))
        if i % 200 == 199:
            gc.collect()
    report.seconds = time.monotonic() - start
    return report
