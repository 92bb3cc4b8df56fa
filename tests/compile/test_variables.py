"""Context variables that a compiled function sets are set at each call, and by no trace."""

import contextvars
import threading

import pytest

import flambeau
from flambeau.compile.errors import CompileError

X = flambeau.ones(1)
WITH_DEFAULT = contextvars.ContextVar("WITH_DEFAULT", default=None)
WITHOUT = contextvars.ContextVar("WITHOUT")


@pytest.mark.parametrize("variable", [WITH_DEFAULT, WITHOUT])
@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_variable_is_set_at_each_call(variable, fullgraph):
    def play():
        @flambeau.compile(fullgraph=fullgraph)
        def run(x):
            before = variable.get(None)
            variable.set(x * 2 if before is None else before + x)
            return x

        for expected in (2.0, 3.0, 4.0):
            run(X)
            assert variable.get().tolist() == [expected]
        assert run.program_count == 2

    contextvars.Context().run(play)


def test_a_variable_that_is_set_back_is_as_before():
    @flambeau.compile
    def run(x):
        token = WITHOUT.set(x * 2)
        y = WITHOUT.get() * x
        WITHOUT.reset(token)
        return y

    for scale in (1.0, 3.0):
        assert run(X * scale).tolist() == [2 * scale**2]
        with pytest.raises(LookupError):
            WITHOUT.get()


@pytest.mark.parametrize("variable", [WITH_DEFAULT, WITHOUT])
def test_a_trace_that_fails_sets_nothing(variable):
    @flambeau.compile(fullgraph=True)
    def run(x):
        variable.set(x * 2)
        return x if x.sum() > 0 else -x

    with pytest.raises(CompileError):
        run(X)
    assert variable.get("unset") == "unset"


def test_each_thread_has_its_own_attributes():
    local, found = threading.local(), []
    local.scale = 2.0
    run = flambeau.compile(lambda x: x * getattr(local, "scale", 10.0))
    assert run(flambeau.ones(())).item() == 2
    thread = threading.Thread(target=lambda: found.append(run(flambeau.ones(())).item()))
    thread.start()
    thread.join()
    assert found == [10]
    assert run(flambeau.ones(())).item() == 2
    del local.scale
    assert run(flambeau.ones(())).item() == 10
    local.scale = 3.0
    assert run(flambeau.ones(())).item() == 3
