"""What tests of changes outside a compiled function have in common."""

import flambeau

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
