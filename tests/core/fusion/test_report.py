"""What is told of fused sequences, and the stances of `compiler.set_stance`."""

from __future__ import annotations

import io

import pytest

import flambeau
from flambeau import compiler
from flambeau.core.fusion import stream
from flambeau.core.programs.gears import settings


def explained() -> str:
    file = io.StringIO()
    compiler.explain(file=file)
    return file.getvalue()


def test_explain_tells_which_loops_are_fused_and_where_they_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settings, "fuse", 6)
    assert "no sequence" in explained()
    x = flambeau.ones(3)
    for i in range(14):
        y = (x * 2.0).exp()
        if i == 11:
            y = y.sqrt()
        (y + 1.0).sum().item()
    text = explained()
    assert "4 calls from test_report.py:" in text
    assert "one program, run" in text
    assert "left once at test_report.py:" in text


def test_stats_count_sequences() -> None:
    before = compiler.stats()
    x = flambeau.ones(3)
    for _ in range(8):
        ((x * 3.0).exp() + 1.0).sum().item()
    after = compiler.stats()
    assert after["followed"] - before["followed"] >= 4
    assert after["left"] == before["left"]


def test_force_eager_runs_compiled_functions_as_they_are() -> None:
    total = flambeau.compile(lambda x: float(x.sum()), fullgraph=True)
    with compiler.set_stance("force_eager"):
        assert total(flambeau.ones(2)) == 2.0
    with pytest.raises(flambeau.CompileError):
        total(flambeau.ones(2))
    compiler.set_stance("force_eager")
    try:
        assert total(flambeau.ones(3)) == 3.0
    finally:
        compiler.set_stance("default")


def test_recompiling_can_be_refused_or_run_eagerly() -> None:
    double = flambeau.compile(lambda x: x * 2.0)
    double(flambeau.ones(3))
    with compiler.set_stance("fail_on_recompile"):
        assert double(flambeau.ones(3)).tolist() == [2.0] * 3
        with pytest.raises(RuntimeError, match="Detected recompile"):
            double(flambeau.ones(4))
    with compiler.set_stance("eager_on_recompile"):
        assert double(flambeau.ones(4)).tolist() == [2.0] * 4
    stream.boundary()
