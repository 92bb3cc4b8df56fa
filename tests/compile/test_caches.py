"""Functions with a cache: they run once, compiled or eager, and keep what they had before."""

import array
import functools
import types

import numpy as np
import pytest

import flambeau
from flambeau.compile import CompileError
from tests.compile.following import MAY_RUN_EAGERLY, tracers

CALLS = range(1, 6)


def state_of_one():
    @functools.lru_cache
    def state():
        return flambeau.zeros(())

    def function(x):
        return state().add_(x).clone()

    return function, lambda i: None, state


def states_with_one_from_before():
    @functools.lru_cache(maxsize=4)
    def state(key):
        return flambeau.zeros(())

    state(0).add_(5)

    def function(x):
        return state(0).add_(x) + state(1).add_(2 * x)

    return function, lambda i: None, lambda: state(0)


def constant_that_the_caller_writes():
    @functools.cache
    def state():
        return flambeau.zeros(())

    return lambda x: x + state(), lambda i: state().add_(5), state


def constant_that_the_function_writes():
    @functools.cache
    def state():
        return flambeau.zeros(())

    return lambda x: x * state().add_(1), lambda i: None, state


def mask_built_in_place():
    held = [0]

    @functools.lru_cache(maxsize=2)
    def mask(size):
        ones = flambeau.zeros(3)
        ones[size:] = 1.0
        return ones

    def change(i):
        held[0] = i % 3

    return lambda x: x * mask(held[0]).sum(), change, lambda: mask(0).sum()


def weight_that_is_set_once():
    weight = flambeau.ones(())

    @functools.cache
    def begin():
        weight.fill_(7.0)

    def function(x):
        begin()
        return x * weight

    return function, lambda i: weight.fill_(1.0) if i == 2 else None, lambda: weight


def product_of_a_weight():
    weight = flambeau.ones(())

    @functools.cache
    def double():
        return weight * 2

    def change(i):
        weight.add_(1)
        if i == 3:
            double.cache_clear()

    return lambda x: x * double(), change, double


def count_in_a_global():
    count = 0

    @functools.cache
    def number():
        nonlocal count
        count += 1
        return 3.0

    return lambda x: x * number(), lambda i: None, lambda: count


def log_of_calls():
    seen = []

    @functools.lru_cache
    def number(n):
        seen.append(n)
        return flambeau.ones(()) * n

    return lambda x: x * number(3), lambda i: None, lambda: len(seen)


def attribute_that_it_has_read():
    box = types.SimpleNamespace(rate=2.0)

    @functools.cache
    def rate():
        return box.rate

    rate()

    def change(i):
        box.rate += 1
        if i == 3:
            rate.cache_clear()

    return lambda x: x * rate(), change, rate


def object_that_it_gives():
    @functools.lru_cache
    def settings():
        return {"rate": 2.0, "more": [3.0], "inner": types.SimpleNamespace(rate=1.0)}

    def function(x):
        found = settings()
        return x * found["rate"] * found["more"][0] * found["inner"].rate

    def change(i):
        settings().update(rate=5.0)
        settings()["more"].insert(0, float(i))
        settings()["inner"].rate = i

    return function, change, lambda: settings()["rate"]


def container_from_outside():
    found = {"rate": 2.0}

    @functools.cache
    def settings():
        return found

    return lambda x: x * settings()["rate"], lambda i: found.update(rate=i), lambda: len(found)


CASES = [
    state_of_one, states_with_one_from_before, constant_that_the_caller_writes,
    constant_that_the_function_writes, mask_built_in_place, weight_that_is_set_once,
    product_of_a_weight, count_in_a_global, log_of_calls, attribute_that_it_has_read,
    object_that_it_gives, container_from_outside,
]  # fmt: skip


def numbers(make, run=lambda function: function):
    function, change, left = make()
    run, found = run(function), []
    for i in CALLS:
        found.append(float(run(flambeau.full((), float(i)))))
        change(i)
    return [*found, float(left())]


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("make", CASES)
def test_compiled_equals_eager(make, fullgraph):
    if fullgraph and make is mask_built_in_place:
        # Each of the first calls finds nothing in the cache.
        with pytest.raises(CompileError, match=r"calls mask\(\), which has a cache"):
            numbers(make, functools.partial(flambeau.compile, fullgraph=True))
        return
    compiled = functools.partial(flambeau.compile, fullgraph=fullgraph)
    assert numbers(make, compiled) == numbers(make)
    assert not tracers()


def test_a_container_in_a_cache_is_changed_eagerly_or_refused():
    def make():
        @functools.lru_cache
        def state():
            return [flambeau.zeros(())]

        def function(x):
            state()[0] = state()[0] + x
            return state()[0].clone()

        return function, lambda i: None, lambda: state()[0]

    with pytest.warns(UserWarning, match=r"changes the cache of state\(\)"):
        found = numbers(make, flambeau.compile)
    assert found == numbers(make)
    with pytest.raises(CompileError, match=r"changes the cache of state\(\)"):
        numbers(make, functools.partial(flambeau.compile, fullgraph=True))


def test_a_trace_that_fails_leaves_the_results_from_before():
    @functools.lru_cache(maxsize=4)
    def state(key):
        return flambeau.zeros(())

    state(0).add_(5)

    @flambeau.compile(fullgraph=True)
    def function(x):
        return state(0) + x if state(1) + x > 0 else x

    with pytest.raises(CompileError, match="value of a tensor"):
        function(flambeau.ones(()))
    assert state.cache_info().currsize == 1
    assert state(0).item() == 5
    assert state(1).item() == 0


def test_a_cache_that_keeps_too_little_is_refused():
    @functools.lru_cache(maxsize=1)
    def mask(size):
        return flambeau.ones(size)

    run = flambeau.compile(lambda x: x * mask(2).sum() * mask(3).sum(), fullgraph=True)
    assert [run(flambeau.ones(())).item() for _ in range(2)] == [6, 6]
    with pytest.raises(CompileError, match=r"calls mask\(\), which has a cache.*at each call"):
        run(flambeau.ones(()))


@pytest.mark.parametrize(
    ("held", "change"),
    [
        (np.array([2.0]), lambda held: held.__setitem__(0, 3.0)),
        (array.array("d", [2.0]), lambda held: held.append(3.0)),
        (bytearray(b"\2"), lambda held: held.append(3)),
        (types.MappingProxyType(COUNTS := {2.0: 1}), lambda held: COUNTS.update({3.0: 1})),
        ([np.array(2.0)], lambda held: held.append(np.array(3.0))),
    ],
)
def test_a_result_with_other_content_is_another(held, change):
    @functools.lru_cache
    def kept(key):
        return held

    def last_of(x):
        return x * float([*kept(1)][-1])

    assert kept(1) is held
    compiled = flambeau.compile(last_of)
    assert compiled(flambeau.ones(1)).item() == 2.0
    change(held)
    assert compiled(flambeau.ones(1)).item() == 3.0
