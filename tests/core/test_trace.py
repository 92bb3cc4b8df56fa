"""What a trace reads and writes stays in the trace; some state is made outside it."""

import jax
import pytest
from jax.core import Tracer

import flambeau
from flambeau.core.values.cell import Cell
from flambeau.core.values.trace import Trace, current, outside


def traced(function):
    """Run ``function`` under a trace of its own and give the trace and what it returned."""
    trace = Trace(first_sequence=0)
    results = []

    def run():
        results.append(function())
        return 0

    with trace:
        jax.make_jaxpr(run)()
    return trace, results[0]


def test_reads_give_the_array_and_are_noted():
    x = flambeau.ones(2)
    trace, array = traced(x._read)
    assert array is x.jax()
    assert trace.reads == {x._cell: array}


def test_writes_stay_in_the_trace():
    x = flambeau.ones(2)

    def write():
        x.add_(1)
        return x._read()

    trace, array = traced(write)
    assert isinstance(array, Tracer)
    assert trace.values[x._cell] is array
    assert x.tolist() == [1.0, 1.0]


def test_cells_that_share_an_array_are_told_apart():
    x = flambeau.ones(2)
    y = flambeau.Tensor._wrap(x.jax())

    def read():
        return x._read(), y._read()

    trace, (first, second) = traced(read)
    assert first is not second
    assert y.jax() is second
    assert len(trace.reads) == 2


def test_grads_are_read_and_set_in_the_trace():
    x = flambeau.ones(2, requires_grad=True)

    def change():
        before = x.grad
        x.grad = flambeau.zeros(2)
        return before, x.grad

    trace, (before, after) = traced(change)
    assert before is None
    assert trace.grads == {x: after}
    assert x.grad is None


def test_outside_computes_for_real():
    def make():
        with outside():
            assert current() is None
            return flambeau.zeros(2) + 1

    trace, made = traced(make)
    assert made.tolist() == [1.0, 1.0]
    assert not trace.reads


def test_there_is_no_trace_elsewhere():
    assert current() is None
    assert Cell(flambeau.ones(1).jax()).version == 0


def test_values_are_refused():
    with pytest.raises(RuntimeError, match="where"):
        traced(lambda: (flambeau.ones(1) * 2).item())
