"""How many programs a compiled function keeps."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest

import flambeau
from flambeau import nn

function = sys.modules["flambeau.compile.function"]


@pytest.fixture(autouse=True)
def traced(monkeypatch):
    """The shapes that functions are traced for, while they keep three programs."""
    monkeypatch.setattr(function, "MOST_PROGRAMS", 3)
    program, shapes = function.Program, []

    def noted(of, leaves, structure, **options):
        shapes.append(tuple(leaves[0].shape))
        return program(of, leaves, structure, **options)

    monkeypatch.setattr(function, "Program", noted)
    return shapes


def test_the_least_recently_used_goes(traced):
    double = flambeau.compile(lambda x: x * 2)
    for size in (1, 2, 3, 1, 4):
        assert double(flambeau.ones(size)).tolist() == [2.0] * size
    assert double.program_count == 3
    double(flambeau.ones(1))
    double(flambeau.ones(3))
    assert traced == [(1,), (2,), (3,), (4,)]
    double(flambeau.ones(2))
    assert traced[-1] == (2,)


def test_a_step_of_fixed_shapes_stays(traced):
    double = flambeau.compile(lambda x: x * 2)
    for size in range(2, 10):
        double(flambeau.ones(1))
        double(flambeau.ones(size))
    assert traced.count((1,)) == 1


def test_situations_of_one_signature_count_too():
    scale = [0]

    @flambeau.compile
    def scaled(x):
        return x * scale[0]

    for number in range(6):
        scale[0] = number
        assert scaled(flambeau.ones(1)).tolist() == [float(number)]
    assert scaled.program_count == 3


def test_the_arguments_of_the_call_that_was_traced_are_not_kept():
    layer = nn.Linear(4, 2)
    for function in (lambda x: layer(x).detach(), lambda x: layer(x).sum()):
        compiled = flambeau.compile(function)
        x = flambeau.ones(3, 4)
        array = weakref.ref(x._read())
        compiled(x)
        compiled(x)
        del x
        gc.collect()
        assert array() is None
