"""A slice of the situations, which always judges the same ones.

``situations/known.txt`` names the situations that fail today. One that fails and is not named there
is an error, and so is one that is named there and passes; ``python -m tests.fuzz.situations --known
--update --names`` judges those that are named there again.
"""

import functools

import pytest

import flambeau
from tests.fuzz import situations
from tests.fuzz.situations.running import SituationReport, Verdict, judge
from tests.fuzz.slices import SLICE_OF_A_SEARCH

# `make test` judges others, in tests/compile/test_situations.py.
SLICE = 300
KNOWN = situations.known()


@pytest.fixture(scope="module")
def report():
    return situations.run(seed=0, limit=SLICE)


def test_there_are_a_thousand_situations_each_with_a_name():
    names = [each.name for each in situations.every()]
    assert len(names) == len({*names}) >= 1000
    assert {*names} >= KNOWN, "known.txt names situations that do not exist"


@SLICE_OF_A_SEARCH
def test_results_are_eagers(report):
    failing = {each.situation.name: each for each in report.verdicts if not each.agrees}
    failures = [f"{each.kind}: {name}: {each.detail}" for name, each in failing.items()]
    new = [each for name, each in zip(failing, failures, strict=True) if name not in KNOWN]
    assert not new, "\n".join(["these fail:", *new])
    mended = KNOWN & {each.situation.name for each in report.verdicts} - failing.keys()
    assert not mended, "\n".join(["these pass; take them out of known.txt:", *sorted(mended)])


@SLICE_OF_A_SEARCH
def test_the_slice_has_all_of_its_situations(report):
    assert len(report.verdicts) == SLICE
    assert report.counts["equal"] > SLICE // 3
    assert not [each for each in report.verdicts if each.kind == "vacuous"]


def test_stale_values_errors_and_needless_traces_are_found(monkeypatch):
    situation = next(iter(situations.every()))
    assert judge(situation).kind == "equal"

    def once(function):
        results = []

        def run(*args):
            results.append(results[0] if results else function(*args))
            return results[0]

        return run

    def refuse(function):
        def run(*args):
            raise RuntimeError("no")

        return run

    class Tracer:
        def __init__(self, function):
            self.function, self.program_count = function, 0

        def __call__(self, *args):
            self.program_count += 1
            return self.function(*args)

    for broken, kind in ((once, "stale"), (refuse, "refused"), (Tracer, "traced again")):
        compiled = functools.partial(lambda made, function, fullgraph: made(function), broken)
        monkeypatch.setattr(flambeau, "compile", compiled)
        assert judge(situation).kind == kind


def test_situations_that_are_known_to_fail_are_no_disagreements():
    one, other = [*situations.every()][:2]
    report = SituationReport(0, {one.name})
    for each in (one, other):
        report.take(Verdict(each, "stale", "call 2"))
    assert [each.title for each in report.disagreements] == [f"stale: {other.name}: call 2"]
    assert report.counts["known to fail"] == 1


def test_the_same_seed_chooses_the_same_situations():
    one, other = ([each.name for each in situations.chosen(None, 3, 3000)] for _ in range(2))
    assert one == other
    assert one != [each.name for each in situations.chosen(None, 4, 3000)]
