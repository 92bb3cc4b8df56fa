"""An attribute that is set before it is read depends on nothing; every way of reading it counts."""

import sys
import threading

import pytest

import flambeau
from flambeau import nn
from tests.compile.following import MAY_RUN_EAGERLY, check_as_eagerly

LAST = 0.0
HERE = sys.modules[__name__]


def in_a_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def read_by_another_function():
    return LAST


READERS = {
    "by its name": read_by_another_function,
    "as an attribute of the module": lambda: HERE.LAST,
    "by a name that is computed": lambda: getattr(HERE, "LA" + "ST"),
    "in globals()": lambda: globals()["LAST"],
    "in the dictionary of the module": lambda: vars(HERE)["LAST"],
    "by eval": lambda: eval("LAST"),
    "from a thread": lambda: in_a_thread(lambda: LAST),
}


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("value", [0.0, flambeau.zeros(())], ids=["number", "tensor"])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_global_that_is_read_before_it_is_assigned(read, value):
    def make():
        global LAST
        LAST = value

        def step(x):
            global LAST
            found = read() + x.sum() * 0
            LAST = x.sum() if isinstance(value, flambeau.Tensor) else float(x.shape[0])
            return found

        def between(call):
            global LAST
            LAST = LAST + call

        return step, lambda: LAST, between

    check_as_eagerly(make)


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = 1.0


WAYS = {
    "by another handle": lambda module, handle: handle.rate,
    "from a thread": lambda module, handle: in_a_thread(lambda: module.rate),
    "in its dictionary": lambda module, handle: vars(module)["rate"],
    "by the dictionary of another handle": lambda module, handle: vars(handle)["rate"],
    "by getattr": lambda module, handle: getattr(handle, "ra" + "te"),
}


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("read", WAYS.values(), ids=WAYS)
def test_an_attribute_that_is_read_before_it_is_set(read):
    def make():
        module = Holder()
        handle = flambeau.compile(module)

        def step(x):
            found = read(module, handle) + x.sum() * 0
            module.rate = float(x.shape[0])
            return found

        def between(call):
            module.rate += call % 2

        return step, lambda: module.rate, between

    check_as_eagerly(make)


class Counting:
    """Its ``__setattr__`` reads the old value."""

    rate, changes = 1.0, 0

    def __setattr__(self, name, value):
        if name == "rate" and self.rate != value:
            object.__setattr__(self, "changes", self.changes + 1)
        object.__setattr__(self, name, value)


def an_object_that_counts_its_changes():
    holder = Counting()

    def step(x):
        holder.rate = float(x.shape[0])
        return x * holder.changes

    def between(call):
        holder.rate = float(call % 3)

    return step, lambda: (holder.rate, holder.changes), between


def deleted_and_set(kind):
    def make():
        holder = kind()
        holder.rate = 1.0

        def step(x):
            try:
                del holder.rate
                found = 1.0
            except AttributeError:
                found = 2.0
            holder.rate = 3.0
            return x * found

        def between(call):
            if call % 2:
                del holder.rate

        return step, lambda: vars(holder).get("rate"), between

    return make


class Empty:
    pass


@MAY_RUN_EAGERLY
@pytest.mark.parametrize(
    "make", [an_object_that_counts_its_changes, deleted_and_set(Empty), deleted_and_set(Holder)]
)
def test_setting_may_depend_on_what_was_there(make):
    check_as_eagerly(make)


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("read", ["handle", "thread"])
def test_a_mode_that_is_read_before_it_is_set(read):
    def make():
        module = nn.Dropout()
        handle = flambeau.compile(module)

        def step(x):
            in_thread = read == "thread"
            was = in_a_thread(lambda: module.training) if in_thread else handle.training
            module.eval()
            return x * (2.0 if was else 3.0)

        return step, lambda: module.training, lambda call: module.train(call % 2 == 0)

    check_as_eagerly(make)


def a_bound_method(x):
    return [1].append


def a_bound_method_of_a_tensor(x):
    return [x * 2].append


def a_class(x):
    class Made:
        content = x * 2

    return Made


def a_function(x):
    return lambda: 3


@MAY_RUN_EAGERLY
@pytest.mark.parametrize("make", [a_bound_method, a_bound_method_of_a_tensor, a_class, a_function])
def test_what_is_made_in_the_function_is_another_one_at_each_call(make):
    run = flambeau.compile(make)
    results = [run(flambeau.ones(2)) for _ in range(4)]
    assert len({*map(id, results)}) == 4
    assert run.program_count == 0


def test_a_slice_of_tensors_has_those_of_the_call():
    run = flambeau.compile(lambda x: slice(x.sum(), 2))
    assert [run(flambeau.ones(n)).start.item() for n in (2, 3, 2)] == [2, 3, 2]
