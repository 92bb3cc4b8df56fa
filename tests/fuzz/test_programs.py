"""A few random programs at every run of the tests, and the search itself on planted defects."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

import flambeau
from flambeau.core.fusion import stream
from tests.fuzz import programs, reduce
from tests.fuzz.generation import generate
from tests.fuzz.program import Input, Program, Statement
from tests.fuzz.report import Report
from tests.fuzz.slices import SLICE_OF_A_SEARCH

HAS_TORCH = importlib.util.find_spec("torch") is not None


# Whether code runs in such a way, asked in the middle of it.
IN_WAY = {
    "eager": lambda: not flambeau.compiler.is_compiling(),
    "compiled": flambeau.compiler.is_compiling,
    "fused": lambda: stream.here.stream.segment is not None,
}


def program(*statements: str, results: tuple[str, ...] = ("v2",)) -> Program:
    x = Input("x0", "float32", (3,), (0.5, -1.0, 2.0), requires_grad=True)
    return Program((), (), ((x,), (x,)), tuple(map(Statement, statements)), results, True)


def search(seed: int, count: int, share: float) -> Report:
    report = Report("programs", seed)
    for index in range(count):
        programs.search_one(programs.oracle(), seed, index, report, share)
    return report


@SLICE_OF_A_SEARCH
@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is what the programs are compared with")
@pytest.mark.parametrize("seed", [1001, 1005])
def test_random_programs_agree(seed: int) -> None:
    report = search(seed, 20, 0.25)
    assert not report.disagreements, str(report)
    assert report.counts["of these compiled"]


@SLICE_OF_A_SEARCH
def test_random_programs_agree_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "HAS_TORCH", False)
    report = search(1003, 8, 1.0)
    assert not report.disagreements, str(report)
    assert report.counts["of these compiled"]


def test_the_same_seed_gives_the_same_program() -> None:
    one, other = (generate(programs.oracle(), (5, 7)).source() for _ in range(2))
    assert one == other


@SLICE_OF_A_SEARCH
def test_random_programs_agree_when_they_are_fused() -> None:
    report = Report("programs", 1007)
    for index in range(8):
        programs.search_one(flambeau, 1007, index, report, fused=True)
    assert not report.disagreements, str(report)
    assert report.counts["sequences that ran as one program"] >= 8


@pytest.mark.parametrize("way", ["eager", "compiled", "fused"])
def test_a_planted_defect_is_found_and_reduced(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way == "eager" and not HAS_TORCH:
        pytest.skip("PyTorch is what eager is compared with")
    sound = program("v1 = x0.tanh()", "v3 = x0.exp()", "v2 = v1.sinh() + v3", "v4 = v3.cos()")
    assert not programs.Comparison(sound, way).found()
    right = flambeau.Tensor.sinh

    def wrong(self: Any) -> Any:
        return right(self) + IN_WAY[way]()

    monkeypatch.setattr(flambeau.Tensor, "sinh", wrong)
    found = programs.Comparison(sound, way).found()
    assert [each.what for each in found][:1] == ["elements"]
    shown = programs.reduced(sound, found[0], way, (0, 0))
    assert ("tanh" not in shown.program) or way == "fused"
    assert "exp" not in shown.program
    assert shown.program.count(".sinh()") == 1
    assert ("compile(step)" in shown.program) is (way == "compiled")


def test_reducing_keeps_what_fails() -> None:
    block = Statement(
        "with lib.no_grad():", (Statement("v5 = x0.cos()"), Statement("v6 = v5.sin()"))
    )
    large = program("v1 = x0.exp()", "v2 = v1 + x0", results=("v1", "v2"))
    large = Program(large.inputs, (), large.calls, (*large.step, block), large.results)

    def fails(candidate: Program) -> bool:
        return ".cos()" in candidate.source()

    small = reduce.reduce(large, fails)
    assert [list(each.lines()) for each in small.step] == [["v5 = x0.cos()"]]
    assert small.results == ()
    assert len(small.calls) == 1


DIFFERENCES_OF_MEMORY = {
    "an expanded gradient": ["v1 = lib.autograd.grad(x0.sum(), [x0])[0]", "v1[1] = 5.0", "v2 = v1"],
    "a transposed result": ["v1 = lib.ones(2, 3).T.exp()", "v1.flatten().mul_(2)", "v2 = v1"],
    "what a write reads": ["v2 = lib.arange(4.0)", "v2[1:] *= v2[:-1]"],
    "what was saved": ["v2 = x0.sin()", "x0.data.mul_(2)"],
    "a resized result": ["v2 = x0.detach().clone()", "v1 = v2[:2]", "lib.add(v1, 1, out=v2)"],
    "draws": ["v2 = lib.zeros(2, 3)", "v2.t().uniform_()"],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is what eager is compared with")
@pytest.mark.parametrize("name", DIFFERENCES_OF_MEMORY)
def test_documented_differences_of_memory_are_told_from_defects(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    differing = program(*DIFFERENCES_OF_MEMORY[name])
    comparison = programs.Comparison(differing, "eager")
    assert not comparison.found()
    assert comparison.counts["documented differences"] == 1
    observe = programs.observe

    def off(program: Program, lib: Any, *rest: Any) -> Any:
        seen = observe(program, lib, *rest)
        if lib is flambeau:
            value = seen.facts["call 0: v2"]
            value.elements[...] += 0.5
        return seen

    monkeypatch.setattr(programs, "observe", off)
    assert "elements" in [each.what for each in comparison.found()]


def test_errors_of_another_type_are_a_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    if not HAS_TORCH:
        pytest.skip("PyTorch is what eager is compared with")
    refused = program("v2 = x0.reshape(7)")
    assert not programs.Comparison(refused, "eager").found()

    def wrong(self: Any, *shape: int) -> Any:
        raise KeyError(shape)

    monkeypatch.setattr(flambeau.Tensor, "reshape", wrong)
    assert [each.what for each in programs.Comparison(refused, "eager").found()] == ["type"]
