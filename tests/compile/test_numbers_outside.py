"""Globals, variables and attributes that are numbers: inputs once they have changed."""

import itertools
import threading
import warnings
from types import SimpleNamespace

import pytest

import flambeau
from flambeau import nn
from tests.compile.test_numbers import FOLLOWED, READ, X, outcome

number = 0.0


class Layer(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.n = function, 0

    def forward(self, x):
        return self.function(x, self.n)


class Plain:
    n = 0

    def __init__(self):
        self.n = 0


def in_a_module(function):
    layer = Layer(function)
    return layer, lambda value: setattr(layer, "n", value)


def in_an_object(function, kind=Plain):
    held = kind()
    held.n = 0
    return lambda x: function(x, held.n), lambda value: setattr(held, "n", value)


def in_a_namespace(function):
    return in_an_object(function, SimpleNamespace)


def in_a_function(function):
    def holder():
        pass

    holder.n = 0
    return lambda x: function(x, holder.n), lambda value: setattr(holder, "n", value)


def in_a_variable(function):
    n = 0

    def change(value):
        nonlocal n
        n = value

    return lambda x: function(x, n), change


def in_a_global(function):
    def change(value):
        global number
        number = value

    change(0)
    return lambda x: function(x, number), change


PLACES = [in_a_module, in_an_object, in_a_namespace, in_a_function, in_a_variable, in_a_global]
# A number that is not used is compared; whether it is zero has one answer for all others.
FOR_ALL = FOLLOWED.keys() - {"not at all"} | {"a static argument"}
# Each function with a number in a module, and four functions with one in each other place.
PAIRS = [
    *((name, in_a_module) for name in (*FOLLOWED, *READ)),
    *itertools.product(("an operand", "returned", "an index", "a branch"), PLACES[1:]),
]


@pytest.mark.parametrize("kind", [int, float])
@pytest.mark.parametrize(("name", "place"), PAIRS)
@pytest.mark.filterwarnings("ignore::flambeau.compile.errors.CompileWarning")
def test_a_program_holds_for_all_values_that_python_does_not_read(name, place, kind):
    function, change = place({**FOLLOWED, **READ}[name])
    compiled = flambeau.compile(function, fullgraph=True)
    for value in map(kind, (0, 1, 2, 1, 0)):
        change(value)
        assert outcome(compiled, X) == outcome(function, X)
    assert compiled.program_count == (2 if name in FOR_ALL else 3)


def test_a_value_of_another_class_is_another_program():
    function, change = in_a_module(lambda x, n: x if n is None else x * n)
    compiled = flambeau.compile(function, fullgraph=True)
    for value in (1.0, 2.0, 3, None, flambeau.tensor(5.0), 4.0, 2.5, True, 6.0):
        change(value)
        assert outcome(compiled, X) == outcome(function, X)


def test_dynamic_false_compares_all_numbers():
    function, change = in_a_module(lambda x, n: x * n)
    compiled = flambeau.compile(function, dynamic=False, fullgraph=True)
    for value in (1.0, 2.0, 3.0):
        change(value)
        compiled(X)
    assert compiled.program_count == 3


class Reversed(flambeau.autograd.Function):
    @staticmethod
    def forward(ctx, x, layer):
        ctx.layer = layer
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return -ctx.layer.strength * grad, None


class WithHooks(nn.Module):
    """A layer whose backward reads numbers."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.ones(3))
        self.strength, self.scale = 1.0, 1.0

    def forward(self, x):
        y = Reversed.apply(x * self.weight, self)
        y.register_hook(lambda grad: grad * self.scale)
        return y


@pytest.mark.parametrize("inside", [False, True])
def test_numbers_that_backward_reads(inside):
    def trained(compile):
        layer = WithHooks()

        def step(x):
            loss = layer(x).sum()
            if inside:
                loss.backward()
            return loss

        run = flambeau.compile(step, fullgraph=True) if compile else step
        found = []
        for strength, scale in ((1.0, 1.0), (2.0, 1.0), (3.0, 4.0), (5.0, 2.0), (1.0, 3.0)):
            layer.strength, layer.scale = strength, scale
            layer.weight.grad = None
            loss = run(X)
            if not inside:
                loss.backward()
            found.append(layer.weight.grad.tolist())
        if compile:
            assert run.program_count <= 3
        return found

    assert trained(compile=True) == trained(compile=False)


def test_a_schedule_of_a_weight_is_two_programs_with_training():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.beta, self.epoch = nn.Linear(3, 3), 0.0, 0

        def forward(self, x):
            y = self.layer(x)
            return y.square().mean() + self.beta * y.abs().mean()

    def trained(compile):
        flambeau.manual_seed(0)
        model = Model()
        optimizer = flambeau.optim.AdamW(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x)
            loss.backward()
            optimizer.step()
            return loss

        run = flambeau.compile(step, fullgraph=True) if compile else step
        losses = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for i in range(12):
                model.beta, model.epoch = min(1.0, i / 8), i
                losses.append(run(X).item())
        if compile:
            # The first step makes the optimizer's state.
            assert run.program_count <= 4
        return losses

    assert trained(compile=True) == pytest.approx(trained(compile=False), rel=1e-5)


def test_numbers_are_put_back_after_a_trace():
    layer = Layer(lambda x, n: x * n if not failing else x.view(7))
    failing = False
    compiled = flambeau.compile(layer, fullgraph=True)
    for value in (1.0, 2.0):
        layer.n = value
        compiled(X)
        assert type(layer.n) is float
    failing = True
    layer.n = 3.0
    for _ in range(2):
        with pytest.raises(RuntimeError, match="shape"):
            compiled(X)
        assert type(layer.n) is float
        assert layer.n == 3.0


def test_another_thread_sees_the_number_during_a_trace():
    started, go_on = threading.Lock(), threading.Lock()
    started.acquire()
    seen, waits = [], False

    def slow(x, n):
        y = x * n
        if waits and flambeau.compiler.is_compiling():
            started.release()
            assert go_on.acquire(timeout=30)
        return y

    layer = Layer(slow)
    compiled = flambeau.compile(layer, fullgraph=True)
    layer.n = 1.0
    compiled(X)
    waits = go_on.acquire()
    layer.n = 2.0

    def look():
        assert started.acquire(timeout=30)
        seen.append((int(layer.n), (X * layer.n).tolist()))
        go_on.release()

    other = threading.Thread(target=look)
    other.start()
    assert compiled(X).tolist() == [0.0, 2.0, 4.0]
    other.join()
    assert seen == [(2, [0.0, 2.0, 4.0])]
    waits = False
    layer.n = 5.0
    assert compiled(X).tolist() == [0.0, 5.0, 10.0]


def test_an_integer_that_no_program_can_take():
    for inner in (lambda x, n: x if n > 1000 else x * n, lambda x, n: x * n):
        function, change = in_a_module(inner)
        compiled = flambeau.compile(function)
        for value in (1, 2, 3, 2**70, 4):
            change(value)
            assert outcome(compiled, X) == outcome(function, X)


def test_a_number_that_the_function_changes_too():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.time, self.counts = 0.0, False

        def forward(self, x):
            if self.counts:
                self.time = self.time + 1.0
            return x * self.time

    def run(compile):
        layer, found = Counting(), []
        call = flambeau.compile(layer) if compile else layer
        for time, counts in ((1.0, False), (2.0, False), (3.0, True), (None, True), (7.0, False)):
            layer.time = layer.time if time is None else time
            layer.counts = counts
            found.append((call(X).tolist(), layer.time))
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(compile=True) == run(compile=False)


def test_numbers_in_recomputed_parts_and_transformed_functions():
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.weight = 1.0, nn.Parameter(flambeau.ones(3))

        def forward(self, x):
            return (x * self.weight * self.scale).exp()

    def run(compile):
        part, found = Part(), []

        def step(x):
            y = flambeau.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
            (y.sum() + flambeau.func.vmap(part)(x[:, None] * 0.1).sum()).backward()

        call = flambeau.compile(step, fullgraph=True) if compile else step
        for scale in (1.0, 0.5, 0.25, 2.0):
            part.scale, part.weight.grad = scale, None
            call(X)
            found += part.weight.grad.tolist()
        if compile:
            assert call.program_count == 2
        return found

    assert run(compile=True) == pytest.approx(run(compile=False), rel=1e-6)


class Described:
    """A descriptor that gives a number of its own."""

    value = 0.0

    def __get__(self, instance, owner=None):
        return self.value


class HasDescriptor:
    n = Described()


def test_a_descriptor_stays_in_its_class():
    held, described = HasDescriptor(), vars(HasDescriptor)["n"]
    compiled = flambeau.compile(lambda x: x * held.n + held.n, fullgraph=True)
    for value in (1.0, 2.0, 3.0):
        described.value = value
        assert compiled(X).tolist() == [i * value + value for i in range(3)]
        assert vars(HasDescriptor)["n"] is described


ONE = 1.0


@pytest.mark.parametrize("place", PLACES)
def test_an_identity_of_a_number(place):
    function, change = place(lambda x, n: x * n if n is ONE else x - n)
    compiled = flambeau.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in (ONE, 2.0, 3.0, ONE):
            change(value)
            assert outcome(compiled, X) == outcome(function, X)


F = nn.functional


def with_item(x, index, value):
    found = x.clone()
    found[index] = value
    return found


OPERATORS = {
    "full": lambda x, n: flambeau.full((3,), n) + x,
    "full_like": lambda x, n: flambeau.full_like(x, n) * x,
    "new_full": lambda x, n: x.new_full((2,), n),
    "tensor": lambda x, n: flambeau.tensor(n) * x,
    "tensor of a list": lambda x, n: flambeau.tensor([n, n, 1.0]) * x,
    "as_tensor": lambda x, n: flambeau.as_tensor(n) + x,
    "scalar_tensor": lambda x, n: flambeau.scalar_tensor(n) + x,
    "arange": lambda x, n: flambeau.arange(0.0, n, 0.125),
    "linspace": lambda x, n: flambeau.linspace(0.0, n, 5),
    "clamp": lambda x, n: x.clamp(max=n),
    "leaky_relu": lambda x, n: F.leaky_relu(-x, n),
    "elu": lambda x, n: F.elu(-x, alpha=n),
    "pow": lambda x, n: (x + 1) ** n,
    "rpow": lambda x, n: n**x,
    "masked_fill": lambda x, n: x.masked_fill(x > 1, n),
    "where": lambda x, n: flambeau.where(x > 1, x, n),
    "addcmul": lambda x, n: flambeau.addcmul(x, x, x, value=n),
    "lerp": lambda x, n: flambeau.lerp(x, x + 1, n),
    "add": lambda x, n: flambeau.add(x, x, alpha=n),
    "huber_loss": lambda x, n: F.huber_loss(x, x * 3, delta=n),
    "fill_": lambda x, n: x.clone().fill_(n),
    "an item": lambda x, n: with_item(x, 0, n),
    "items by a mask": lambda x, n: with_item(x, x > 1, n),
    "layer_norm": lambda x, n: F.layer_norm(x, (3,), eps=n),
    "dropout": lambda x, n: F.dropout(x, min(n, 0.5), training=False),
    "threshold": lambda x, n: F.threshold(x, n, 2 * n),
    "std": lambda x, n: x.std() / n + x.var() * n,
    "a product of lists": lambda x, n: sum(x * each for each in [n, 2.0 * n, -n]),
    "a comparison": lambda x, n: (x > n).float() + (n < x),
    "a parameter of a function": lambda x, n: F.normalize(x, p=2.0, dim=0, eps=n),
    "a distribution": lambda x, n: flambeau.distributions.Normal(x, n).log_prob(x + 1),
    "conditions": lambda x, n: flambeau.cond(x.sum() > n, lambda y: y * n, lambda y: y - n, (x,)),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.filterwarnings("ignore::flambeau.compile.errors.CompileWarning")
def test_every_operator_gets_the_number_of_the_call(name):
    function, change = in_a_module(OPERATORS[name])
    compiled = flambeau.compile(function)
    for value in (0.5, 0.25, 2.0, 1.5, 0.5):
        change(value)
        (kind, found), (expected_kind, expected) = outcome(compiled, X), outcome(function, X)
        assert kind == expected_kind
        for (one, values), (other, numbers) in zip(found, expected, strict=True):
            assert one == other
            assert values == pytest.approx(numbers, rel=1e-6)
