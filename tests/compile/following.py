"""What tests of changes outside a compiled function have in common."""

import pytest

import flambeau
from flambeau.compile import CompileError

X = flambeau.tensor([1.0, -1.0, 2.0])


def check(function, change):
    """Compiled calls follow a change that matters, with one program before it and one after."""
    run = flambeau.compile(function)
    before = function(X)
    assert all(flambeau.equal(run(X), before) for _ in range(3))
    assert run.program_count == 1
    change()
    after = function(X)
    assert not (after.dtype is before.dtype and flambeau.equal(after, before))
    assert all(flambeau.equal(run(X), after) for _ in range(2))
    assert run.program_count == 2


def check_refused(function, match, *args):
    """Two calls run eagerly, as a first call may create state; the third is an error.

    Returns:
        The compiled function.
    """
    run = flambeau.compile(function, fullgraph=True)
    for _ in range(2):
        run(*args)
    with pytest.raises(CompileError, match=match):
        run(*args)
    assert run.program_count == 0
    return run
