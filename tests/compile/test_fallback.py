"""What a call leaves that cannot become one program: nothing, or what an eager call leaves."""

import contextlib
import io
import random
import warnings

import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileWarning


class Holder:
    """Plain Python state around a function."""

    number = 0

    def __init__(self):
        self.module = nn.Dropout(0.5)
        self.attributes: dict[str, int] = {"seen": 0}
        self.generator = np.random.default_rng(0)
        self.random = random.Random(0)
        self.text = io.StringIO("abcdef")
        self.box = None


class Box:
    def __init__(self, value):
        self.value = value


TOTAL = 0


def count(holder):
    holder.number += 1
    return holder.number


def count_globally(holder):
    global TOTAL
    TOTAL += 1
    return TOTAL


def set_a_new_attribute(holder):
    holder.extra = getattr(holder, "extra", 0) + 2
    return holder.extra


def count_in_a_dictionary(holder):
    holder.attributes["seen"] += 1
    return holder.attributes["seen"]


def switch(holder):
    holder.module.train(not holder.module.training)
    return holder.module.training


def add_a_hook(holder):
    holder.module.register_forward_hook(lambda module, inputs, output: output + 1)
    holder.module.eval()
    return holder.module(flambeau.ones(2)).sum() + len(holder.module._forward_hooks)


def add_a_layer(holder):
    holder.module.layer = nn.Identity()
    return len([*holder.module.children()])


def keep_an_object(holder):
    if holder.box is None:
        holder.box = Box(flambeau.ones(2) * 3)
    return holder.box.value.sum()


def draw_from_random(holder):
    return random.random()


def draw_from_a_generator(holder):
    return holder.random.random()


def draw_from_numpy(holder):
    return np.random.rand()  # noqa: NPY002 (users draw so)


def draw_from_a_numpy_generator(holder):
    return holder.generator.random()


def stop_recording(holder):
    flambeau.set_grad_enabled(not flambeau.is_grad_enabled())
    return float(flambeau.is_grad_enabled())


def choose_a_dtype(holder):
    is_single = flambeau.get_default_dtype() == flambeau.float32
    flambeau.set_default_dtype(flambeau.float64 if is_single else flambeau.float32)
    return flambeau.zeros(()).element_size()


CHANGES = [
    count, count_globally, set_a_new_attribute, count_in_a_dictionary, switch, add_a_hook,
    add_a_layer, keep_an_object, draw_from_random, draw_from_a_generator, draw_from_numpy,
    draw_from_a_numpy_generator, stop_recording, choose_a_dtype,
]  # fmt: skip


def state_of(holder):
    return (
        TOTAL, holder.number, getattr(holder, "extra", None), holder.attributes,
        holder.module.training, len(holder.module._forward_hooks), [*holder.module._modules],
        random.getstate(), str(np.random.get_state()), holder.random.getstate(),  # noqa: NPY002
        str(holder.generator.bit_generator.state), flambeau.is_grad_enabled(),
        flambeau.get_default_dtype(),
        holder.box if holder.box is None else holder.box.value.tolist(),
    )  # fmt: skip


@contextlib.contextmanager
def own_world():
    """A holder, and everything as it was afterwards."""
    global TOTAL
    TOTAL = 0
    dtype = flambeau.get_default_dtype()
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    try:
        with warnings.catch_warnings(), flambeau.enable_grad():
            warnings.simplefilter("ignore")
            yield Holder()
    finally:
        flambeau.set_default_dtype(dtype)


def run(wrap, change, then, calls=3):
    with own_world() as holder:

        def function(x):
            found = change(holder) * 1.0
            return then(x, found)

        call = wrap(function)
        found = []
        for _ in range(calls):
            try:
                found.append(float(call(flambeau.ones(2))))
            except ValueError as error:
                found.append(str(error))
        return found, state_of(holder)


def lenient(function):
    return flambeau.compile(function, fullgraph=False)


def asking(x, found):
    return x.sum().item() + found


def raising(x, found):
    raise ValueError("mine")


@pytest.mark.parametrize("then", [asking, raising])
@pytest.mark.parametrize("change", CHANGES)
def test_what_runs_eagerly_leaves_what_an_eager_call_leaves(change, then):
    assert run(lenient, change, then) == run(lambda function: function, change, then)


@pytest.mark.parametrize("then", [asking, raising])
@pytest.mark.parametrize("change", CHANGES)
def test_an_error_leaves_everything_as_it_was(change, then):
    with own_world() as holder:
        before = state_of(holder)

        @flambeau.compile(fullgraph=True)
        def function(x):
            return then(x, change(holder))

        for _ in range(2):
            with pytest.raises((flambeau.CompileError, ValueError)):
                function(flambeau.ones(2))
            assert state_of(holder) == before


def test_a_trace_takes_nothing_from_an_iterator():
    batches = iter([1.0, 2.0, 3.0])
    function = lenient(lambda x: next(batches) + x.sum().item())
    with pytest.warns(CompileWarning, match=r"(?s)runs eagerly.*a list_iterator"):
        assert [function(flambeau.ones(1)) for _ in range(3)] == [2, 3, 4]


def test_an_iterator_among_the_arguments_is_not_used_up():
    def total(x, numbers):
        return sum(x.sum() * each for each in numbers)

    with pytest.warns(CompileWarning, match="an iterator is among the arguments"):
        assert lenient(total)(flambeau.ones(1), (each for each in range(4))).item() == 6


def by_except(x):
    try:
        return x * x.sum().item()
    except RuntimeError:
        return x * 0


def by_suppress(x):
    with contextlib.suppress(Exception):
        return x * x.sum().item()
    return x * 0


def by_a_retry(x):
    for factor in (1, 0):
        try:
            if x.sum() > 0:
                return x * factor * 2
        except Exception:  # noqa: BLE001 (this is what swallows it)
            continue
    return x * 0


def by_finally(x):
    try:
        return x * x.sum().item()
    finally:
        return x * 2  # noqa: B012, SIM107 (this is what swallows it)


@pytest.mark.parametrize("function", [by_except, by_suppress, by_a_retry, by_finally])
def test_a_question_without_an_answer_counts_though_it_is_caught(function):
    x = flambeau.ones(2)
    with pytest.raises(flambeau.CompileError, match=r"test_fallback.*\n.*value of a tensor"):
        flambeau.compile(function, fullgraph=True)(x)
    step = lenient(function)
    for _ in range(4):
        assert step(x).tolist() == function(x).tolist() == [2, 2]


@pytest.mark.parametrize(
    "text",
    [str, repr, lambda x: "%s" % x, lambda x: f"{[x]}"],  # noqa: UP031 (users do)
)
def test_text_has_values(text):
    def function(x):
        return x + 1 if "2." in text(x.sum()) else x - 1

    x = flambeau.ones(2)
    with pytest.raises(flambeau.CompileError, match="value of a tensor is not known"):
        flambeau.compile(function, fullgraph=True)(x)
    with pytest.warns(CompileWarning, match="runs eagerly"):
        assert lenient(function)(x).tolist() == [2, 2]


def test_text_of_what_is_known_is_as_it_is():
    weight = flambeau.ones(2)
    seen = []

    @flambeau.compile
    def function(x):
        seen.append(str(x.shape) + str(x.dtype))
        return x * weight

    function(flambeau.ones(2))
    assert seen == ["flambeau.Size([2])flambeau.float32"]


def test_a_backward_that_must_run_eagerly_makes_the_call_eager():
    weight, seen = flambeau.ones(2, requires_grad=True), []

    def function(x):
        y = weight * x
        y.register_hook(lambda gradient: seen.append(gradient.sum().item()))
        return y.sum()

    with pytest.warns(CompileWarning, match="runs eagerly"):
        lenient(function)(flambeau.ones(2)).backward()
    assert seen == [2]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.tensor([2.0, 2.0]))
        self.rate = 1.0

    def forward(self, x):
        return x * self.weight * self.rate


@pytest.mark.parametrize("lent", ["an argument", "a captured tensor"])
def test_a_functional_call_that_fails_leaves_the_module_its_own_tensors(lent):
    module, captured, x = Scaled(), flambeau.zeros(2), flambeau.ones(2)
    weight = module.weight

    @flambeau.compile
    def function(x):
        values = {"weight": x if lent == "an argument" else captured}
        return flambeau.func.functional_call(module, values, (x,))

    expected = function(x)
    del module.rate
    with pytest.raises(AttributeError, match="rate"):
        function(x)
    assert module.weight is weight
    assert "weight" not in vars(module)
    module.rate = 1.0
    assert function(x).tolist() == expected.tolist()
    assert module(x).tolist() == [2.0, 2.0]


class Table(nn.Module):
    """Makes a table when it is first called, and a longer one when it needs that."""

    def __init__(self):
        super().__init__()
        self.is_ready, self.length = False, 0

    def forward(self, x):
        if not self.is_ready or len(x) > self.length:
            self.is_ready, self.length, self.table = True, len(x), flambeau.arange(float(len(x)))
        return x + self.table[: len(x)]


@pytest.mark.parametrize("fullgraph", [True, False])
def test_state_that_first_calls_make_is_made_once(fullgraph):
    module = Table()
    step = flambeau.compile(module, fullgraph=fullgraph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for length in (2, 2, 3, 3, 2):
            assert step(flambeau.zeros(length)).tolist() == [*range(length)]
    assert module.length == 3
    # One for each length, and another one for the first, whose table is longer now.
    assert step.program_count == 3
