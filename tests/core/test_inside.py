"""The blocks that code is inside of form one stack, which says who takes a write."""

from __future__ import annotations

import jax
import pytest

import flambeau
from flambeau import func
from flambeau.core.support.modes import modes
from flambeau.core.tape.transform import Capture
from flambeau.core.values.inside import Inside, capture, randomness, transformation, writer
from flambeau.core.values.trace import Trace, outside
from flambeau.random import key_scope


def writer_of(tensor):
    return writer(tensor._cell, tensor._cell.array)


def test_without_a_block_the_cell_takes_a_write():
    assert modes.inside is None
    assert writer_of(flambeau.ones(2)) is None
    assert transformation() is None
    assert capture() is None
    assert randomness() == "different"


def test_a_trace_takes_writes_unless_they_are_to_be_real():
    x = flambeau.ones(2)
    trace = Trace(first_sequence=0)
    with trace:
        assert modes.inside is trace
        assert writer_of(x) is trace
        with outside():
            assert modes.inside is None
            assert writer_of(x) is None
        assert writer_of(x) is trace
    assert modes.inside is None


def test_a_transformation_inside_a_trace_decides_alone():
    trace = Trace(first_sequence=0)
    with trace:
        x = flambeau.ones(2)
        with Inside(), pytest.raises(RuntimeError, match="outside"):
            writer_of(x)
        with Inside():
            assert writer_of(flambeau.ones(2)) is None


def test_a_trace_inside_a_transformation_takes_no_writes_to_what_is_outside_of_that():
    x = flambeau.ones(2)
    trace = Trace(first_sequence=0)
    with Inside(), trace, pytest.raises(RuntimeError, match="outside"):
        writer_of(x)


def test_a_trace_that_is_ended_twice_leaves_the_block_around_it():
    trace = Trace(first_sequence=0)
    with Inside() as around:
        # Before it has begun, too.
        trace.__exit__()
        with trace:
            pass
        trace.__exit__()
        assert modes.inside is around
        assert modes.trace is None


def test_a_key_scope_asks_the_transformation_around_it():
    x = flambeau.ones(2)
    with Capture() as running:
        y = flambeau.ones(2)
        with key_scope(jax.random.key(0)):
            z = flambeau.ones(2)
            assert writer_of(z) is None
            assert writer_of(y) is None
            assert capture() is transformation() is running
            with pytest.raises(RuntimeError, match="outside"):
                writer_of(x)


def test_a_compiled_function_inside_vmap_writes_to_nothing_outside():
    total = flambeau.zeros(2)

    @flambeau.compile
    def add(x):
        total.add_(x)
        return x * 2

    with pytest.raises(RuntimeError, match="outside"):
        func.vmap(add)(flambeau.ones(3, 2))
    assert total.tolist() == [0.0, 0.0]


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_a_compiled_function_inside_vmap_writes_to_a_tensor_that_was_made_there():
    def mapped(x):
        total = flambeau.zeros(2)

        @flambeau.compile
        def add(y):
            total.add_(y)
            return total * 1

        return add(x) + total

    given = flambeau.arange(6.0).reshape(3, 2)
    assert func.vmap(mapped)(given).tolist() == (2 * given).tolist()
