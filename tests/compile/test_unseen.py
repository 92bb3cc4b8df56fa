"""What a compiled function cannot follow is told of when it is traced."""

import functools
import types
import warnings

import pytest

import flambeau
from flambeau.compile.errors import CompileWarning, SideEffectError
from flambeau.compile.guarding import arguments
from flambeau.compile.program import Program
from flambeau.compile.reading.discovery import MANY
from flambeau.core.support.modes import modes
from tests.compile.following import X


def many_objects():
    objects = [types.SimpleNamespace(rate=2.0) for _ in range(MANY + 10)]
    return lambda x: x * objects[-1].rate


def many_objects_in_a_dictionary():
    objects = {i: types.SimpleNamespace(rate=2.0) for i in range(MANY + 10)}
    return lambda x: x * objects[7].rate


WARNINGS = {
    "thousands of objects": (many_objects, f"more than {MANY} objects in objects"),
    "values of a dictionary": (many_objects_in_a_dictionary, "objects in objects.*as arguments"),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_says_so(name):
    make, message = WARNINGS[name]
    with pytest.warns(CompileWarning, match=message):
        assert flambeau.compile(make())(X).tolist() == (X * 2).tolist()


def cached_inside():
    @functools.cache
    def get(rate):
        return rate

    return lambda x: x * get(1.0) * get(2.0) * get(1.0)


def cached_before():
    box = types.SimpleNamespace(rate=2.0)

    @functools.cache
    def get():
        return box.rate

    get()
    return lambda x: x * get()


def cached_for_others():
    @functools.cache
    def get(rate):
        return rate

    get(5.0)
    return lambda x: x * get(2.0)


def last_of(held):
    return lambda x: x * held[-1]


QUIET = {
    "results that are cached inside": cached_inside,
    "results that were cached before": cached_before,
    "results that are cached for other arguments": cached_for_others,
    "a long list of numbers": lambda: last_of([2.0] * 2 * MANY),
    "a long list of tensors": lambda: last_of([X * 0 + 2] * 2 * MANY),
    "a few objects": lambda: last_of([object(), object(), 2.0]),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_is_followed_gives_no_warning(name):
    run = flambeau.compile(QUIET[name]())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(X).tolist() == (X * 2).tolist()


SETTINGS = {
    "set_grad_enabled": lambda: flambeau.set_grad_enabled(False),
    "set_default_dtype": lambda: flambeau.set_default_dtype(flambeau.float64),
    "set_default_device": lambda: flambeau.set_default_device("meta"),
    "inference_mode": lambda: flambeau.inference_mode().__enter__(),
    "autocast": lambda: flambeau.autocast("cpu", flambeau.bfloat16).__enter__(),
}


@pytest.fixture
def same_settings():
    yield
    modes.inference, modes.autocast, modes.grad_mode = False, None, True
    flambeau.set_default_device(None)
    flambeau.set_default_dtype(flambeau.float32)
    flambeau.set_grad_enabled(True)


@pytest.mark.usefixtures("same_settings")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_is_left_changed_is_refused(name):
    def leave(x):
        result = x + 1
        SETTINGS[name]()
        return result

    leaves, structure = arguments.flatten((X,), {})
    with pytest.raises(SideEffectError, match=f"leaves .*{name}.*in another state"):
        Program(leave, leaves, structure)
    assert flambeau.is_grad_enabled()
    assert flambeau.get_default_dtype() is flambeau.float32


@pytest.mark.parametrize("inner", [flambeau.no_grad, flambeau.enable_grad, flambeau.inference_mode])
def test_a_setting_that_is_put_back_is_not(inner):
    def use(x):
        with inner():
            return x + 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flambeau.compile(use)(X)
