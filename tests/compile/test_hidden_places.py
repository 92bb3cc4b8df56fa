"""Python state in places that code rarely names is changed once at each call, as eagerly."""

import collections
import ctypes
import gc
import io
import itertools
import operator
import types

import numpy as np
import pytest

from tests.compile.following import MAY_RUN_EAGERLY, check_as_eagerly
from tests.compile.holding import HOLDERS


@pytest.fixture(autouse=True)
def _libraries_are_as_before():
    yield
    vars(operator).pop("kept", None)


def in_a_library(kept):
    operator.kept = kept


def in_a_generator(kept):
    while True:
        yield kept


HIDDEN = {
    **HOLDERS,
    "library": (in_a_library, lambda held: operator.kept),
    "generator": (in_a_generator, next),
    "referent": (lambda kept: [kept], lambda held: gc.get_referents(held)[0]),
}


def counting(start, count, read):
    """A scene in which ``count`` changes a state, and ``read`` gives it as a number."""

    def make():
        state = start()

        def step(x):
            count(state)
            return x * read(state)

        return step, lambda: read(state)

    return make


def add_one(state):
    state.value += 1


def add_to_first(state):
    state[0] += 1


COUNTS = {
    "bound method": counting(lambda: [].append, lambda add: add(1), lambda add: len(add.__self__)),
    "method of the class": counting(list, lambda each: list.append(each, 1), len),
    "sort": counting(lambda: [3, 2, 1], lambda each: each.sort(), operator.itemgetter(0)),
    "setitem": counting(dict, lambda each: operator.setitem(each, len(each), 1), len),
    "rotation": counting(
        lambda: collections.deque([1, 2, 3]), collections.deque.rotate, operator.itemgetter(0)
    ),
    "order": counting(
        lambda: collections.OrderedDict({1: 1, 2: 2, 3: 3}),
        lambda each: each.move_to_end(next(iter(each))),
        lambda each: next(iter(each)),
    ),
    "iterator": counting(itertools.count, next, lambda each: int(repr(each)[6:-1])),
    "text": counting(io.StringIO, lambda each: print("a", file=each), lambda each: each.tell()),
    "namespace": counting(lambda: types.SimpleNamespace(value=0), add_one, lambda each: each.value),
    "ctypes": counting(lambda: ctypes.c_double(0), add_one, lambda each: each.value),
    "memoryview": counting(lambda: memoryview(bytearray(2)), add_to_first, lambda each: each[0]),
    "array": counting(lambda: np.zeros(2)[:1], add_to_first, lambda each: float(each[0])),
}  # fmt: skip


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("name", HIDDEN)
def test_a_list_in_a_hidden_place_is_filled_once(name):
    hold, get = HIDDEN[name]

    def make():
        kept = []
        held = hold(kept)

        def step(x):
            get(held).append(x * 2)
            return x * len(get(held))

        return step, lambda: kept

    check_as_eagerly(make)


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("name", COUNTS)
def test_a_state_is_changed_once(name):
    check_as_eagerly(COUNTS[name])
