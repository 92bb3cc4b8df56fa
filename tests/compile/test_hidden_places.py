"""Python state in places that code rarely names is changed once at each call, as eagerly."""

import collections
import contextvars
import ctypes
import functools
import gc
import io
import itertools
import operator
import threading
import types
import weakref

import numpy as np
import pytest

from tests.compile.following import MAY_RUN_EAGERLY, check_as_eagerly


@pytest.fixture(autouse=True)
def _libraries_are_as_before():
    yield
    vars(operator).pop("kept", None)


class Meta(type):
    """A class of classes, which get a list."""


class Descriptor:
    def __init__(self):
        self.kept = []

    def __get__(self, instance, owner=None):
        return self.kept


class Owner:
    """An object that can be a weak key."""


def listed(hold):
    """A scene with a list inside ``hold(list)``, which also gives how code gets it out."""

    def make():
        kept = []
        get = hold(kept)

        def step(x):
            get().append(x * 2)
            return x * len(get())

        return step, lambda: kept

    return make


def in_a_library(kept):
    operator.kept = kept
    return lambda: operator.kept


def in_a_thread(kept):
    local = threading.local()
    local.kept = kept
    return lambda: local.kept


def in_a_context_variable(kept):
    variable = contextvars.ContextVar("variable")
    variable.set(kept)
    return variable.get


def in_a_weak_dictionary(kept):
    owner = Owner()
    table = weakref.WeakKeyDictionary({owner: kept})
    return lambda: table[owner]


def in_a_generator(kept):
    def generator():
        while True:
            yield kept

    return functools.partial(next, generator())


def in_a_metaclass(kept):
    cls = Meta("Made", (), {})
    Meta.kept = kept
    return lambda: cls.kept


def in_a_descriptor(kept):
    cls = type("Made", (), {"kept": Descriptor()})
    vars(cls)["kept"].kept = kept
    return lambda: cls().kept


def by_the_collector(kept):
    box = [kept]
    return lambda: gc.get_referents(box)[0]


def in_an_object_array(kept):
    table = np.empty(1, object)
    table[0] = kept
    return lambda: table[0]


def in_a_view_of_a_dictionary(kept):
    values = {"kept": kept}.values()
    return lambda: next(iter(values))


def in_a_module(kept):
    module = types.ModuleType("module")
    module.kept = kept
    return lambda: module.kept


HOLDERS = [
    in_a_library, in_a_thread, in_a_context_variable, in_a_weak_dictionary, in_a_generator,
    in_a_metaclass, in_a_descriptor, by_the_collector, in_a_module,
    in_an_object_array, in_a_view_of_a_dictionary,
]  # fmt: skip


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
@pytest.mark.parametrize("hold", HOLDERS, ids=lambda hold: hold.__name__)
def test_a_list_in_a_hidden_place_is_filled_once(hold):
    check_as_eagerly(listed(hold))


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("name", COUNTS)
def test_a_state_is_changed_once(name):
    check_as_eagerly(COUNTS[name])
