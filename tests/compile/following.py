"""What tests of changes outside a compiled function have in common."""

import array
import collections
import gc

import numpy as np
import pytest
from jax.core import Tracer

import flambeau
from flambeau.compile import CompileError
from flambeau.core.values.cell import Cell

X = flambeau.tensor([1.0, -1.0, 2.0])
# For tests of functions that may be no program: their results and effects are the eager ones.
MAY_RUN_EAGERLY = pytest.mark.filterwarnings(
    "ignore:.*runs eagerly:flambeau.compile.errors.CompileWarning"
)


def eager(function):
    """`flambeau.compile` for the eager course of a test."""
    return function


def check(function, *changes):
    """Compiled calls follow each change, which must matter.

    There is one program for each result at most: numbers that have changed are inputs.
    """
    run, results = flambeau.compile(function), []
    for change in (lambda: None, *changes):
        change()
        expected = function(X)
        assert not (results and same(expected, results[-1])), "the change does not matter"
        assert all(flambeau.equal(run(X), expected) for _ in range(3))
        results.append(expected)
        assert min(len(results), 2) <= run.program_count <= len(results)


def same(one, other):
    return one.dtype is other.dtype and flambeau.equal(one, other)


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


def shown(value, known=None):
    """``value`` in a form that compares: classes, contents, and which objects are the same."""
    known = {} if known is None else known
    if value is None or isinstance(value, bool | int | float | str | bytes | type):
        return repr(value)
    if id(value) in known:
        return known[id(value)][0]
    # The object is held, so that its id stays its own.
    known[id(value)] = len(known), value
    return type(value), *_content(value, known)


def _content(value, known):
    if isinstance(value, flambeau.Tensor):
        facts = value.dtype, tuple(value.shape), value.requires_grad, value.is_leaf
        attributes = shown({**value._user_attributes()}, known)
        grad = value._grad if value.requires_grad or value.is_leaf else None
        # A program may round the last bit otherwise than its operators one by one.
        elements = value.detach().numpy()
        elements = np.round(elements.astype(float), 4) if value.is_floating_point() else elements
        return *facts, elements.tolist(), shown(grad, known), attributes
    if isinstance(value, dict | collections.UserDict):
        parts = [(shown(key, known), shown(each, known)) for key, each in value.items()]
        return (parts,)
    if isinstance(value, list | tuple | collections.deque):
        return ([shown(each, known) for each in value], getattr(value, "maxlen", None))
    if isinstance(value, set | frozenset):
        return (sorted(repr(shown(each, {})) for each in value),)
    if isinstance(value, np.ndarray | array.array | bytearray):
        return ([*value],)
    slots = [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
    return shown(getattr(value, "__dict__", None), known), [shown(each, known) for each in slots]


def assert_close(found, expected, **tolerance):
    """Tensors, or none, in the same places, equal up to rounding."""
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        assert one is None or flambeau.allclose(one, other, **tolerance)


def argument(call):
    """The argument of a call."""
    return flambeau.tensor([[1.0, 2.0 + call], [3.0, 4.0]])


def course(make, wrap, after=lambda result: None):
    """What can be seen after each call, with all results so far; and the number of programs.

    Args:
        make: Gives the function, a function that gives the state outside, and optionally one that
            changes the state between calls; it takes the number of the call.
        wrap: `flambeau.compile` or `eager`.
        after: Is called with each result, before it is looked at.
    """
    step, state, *between = make()
    run, seen, results = wrap(step), [], []
    for i in range(5):
        given = argument(i)
        results.append(run(given))
        after(results[-1])
        seen.append(shown([results, state(), given]))
        for change in between:
            change(i)
    return seen, getattr(run, "program_count", 0)


def check_as_eagerly(make, programs=None, **options):
    """Each call gives and leaves what the eager one does; see `course`."""
    expected, _ = course(make, eager, **options)
    found, count = course(make, flambeau.compile, **options)
    for i, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert one == other, f"call {i}"
    assert programs is None or count == programs


def check_refusal(make):
    """With ``fullgraph=True``, calls are as they are eagerly until one is refused; then all are."""
    (step, state, *_), (expected, expected_state, *_) = make(), make()
    run, refusals = flambeau.compile(step, fullgraph=True), 0
    for _ in range(5):
        before = shown(state())
        try:
            found = run(argument(0))
        except CompileError:
            refusals += 1
            assert shown(state()) == before
        else:
            assert not refusals
            assert shown([found, state()]) == shown([expected(argument(0)), expected_state()])
    assert refusals >= 2
    assert not tracers()


def tracers():
    """The Cells that hold a tracer."""
    # Most often there are none, not even in garbage: collecting takes longer than looking.
    if not _cells_with_tracers():
        return []
    gc.collect()
    return _cells_with_tracers()


def _cells_with_tracers():
    cells = [each for each in gc.get_objects() if type(each) is Cell]
    return [each for each in cells if isinstance(each.array, Tracer)]
