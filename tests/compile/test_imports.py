"""Modules that a compiled function imports when it is first called."""

import builtins
import sys
import warnings

import pytest

import flambeau

X = flambeau.ones(3)
SOURCE = """
import flambeau

RUNS.append(1)
TABLE = flambeau.arange(3.0)
rate = 2.0


def scale(x):
    return x * rate
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module that is not imported yet, and the list of its runs."""
    runs = []
    monkeypatch.setattr(builtins, "RUNS", runs, raising=False)
    (tmp_path / "imported_lately.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield runs
    sys.modules.pop("imported_lately", None)


def test_an_import_runs_for_real_once_and_is_no_side_effect(module):
    own = builtins.__import__

    @flambeau.compile
    def step(x):
        import imported_lately

        return imported_lately.scale(x) + imported_lately.TABLE

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert step(X).tolist() == [2.0, 3.0, 4.0]
    assert (len(module), step.program_count) == (1, 1)
    late = sys.modules["imported_lately"]
    assert late.TABLE.tolist() == [0.0, 1.0, 2.0]
    late.rate = 3.0
    assert step(X).tolist() == [3.0, 4.0, 5.0]
    late.TABLE.add_(1)
    assert step(X).tolist() == [4.0, 5.0, 6.0]
    assert builtins.__import__ is own


def test_names_are_imported_too(module):
    @flambeau.compile
    def step(x):
        from imported_lately import TABLE, scale

        return scale(x) + TABLE

    assert step(X).tolist() == step(X).tolist() == [2.0, 3.0, 4.0]
    sys.modules["imported_lately"].rate = 5.0
    assert step(X).tolist() == [5.0, 6.0, 7.0]


def test_the_function_behind_an_import_is_no_global_that_changes():
    run = flambeau.compile(lambda x: x * __import__("math").pi)
    run(X)
    run(X)
    assert run.program_count == 1


def test_an_import_that_fails_may_be_caught():
    def step(x):
        try:
            import no_module_of_this_name  # noqa: F401
        except ImportError:
            return x * 2
        return x

    run = flambeau.compile(step)
    assert run(X).tolist() == run(X).tolist() == [2.0] * 3
    assert run.program_count == 1
