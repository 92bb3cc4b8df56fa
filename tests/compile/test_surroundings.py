"""What functions find in objects, containers and closures is followed, however they get there."""

import array
import collections
import dataclasses
import enum
import functools
import types
import weakref

import numpy as np
import pytest

import flambeau
from flambeau import nn
from tests.compile.following import X, check


@dataclasses.dataclass
class Inner:
    width: float = 2.0


@dataclasses.dataclass
class Config:
    """What a model keeps of how it was asked for."""

    rate: float = 2.0
    inner: Inner = dataclasses.field(default_factory=Inner)
    rates: list = dataclasses.field(default_factory=lambda: [2.0])
    table: dict = dataclasses.field(default_factory=lambda: {"k": 2.0})
    items: list = dataclasses.field(default_factory=lambda: [Inner()])

    def get(self, name):
        return getattr(self, name)

    def __getitem__(self, name):
        return getattr(self, name)


class Easy(dict):
    """A dictionary whose keys are attributes, as several packages offer it."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class Slotted:
    __slots__ = ("k",)

    def __init__(self):
        self.k = 2.0


class Computed:
    def __init__(self):
        self._k = 2.0

    @property
    def k(self):
        return self._k


class Delegating:
    def __init__(self):
        self.inner = types.SimpleNamespace(k=2.0)

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Mode(enum.Enum):
    SLOW = 2.0
    FAST = 7.0


Pair = collections.namedtuple("Pair", "a b")


def other_name(self, x):
    config = self.config
    return x * config.rate


def other_name_of_a_part(self, x):
    inner = self.config.inner
    return x * inner.width


def loop(self, x):
    for each in self.config.items:
        x = x * each.width
    return x


def applied(config, x):
    return x * config.rate


READERS = {
    "attribute": (lambda self, x: x * self.config.rate, lambda c: setattr(c, "rate", 7.0)),
    "part": (lambda self, x: x * self.config.inner.width, lambda c: setattr(c.inner, "width", 7.0)),
    "other part": (
        lambda self, x: x * self.config.inner.width,
        lambda c: setattr(c, "inner", Inner(7.0)),
    ),
    "one of three": (
        lambda self, x: x * (self.config or self.training or None).rate,
        lambda c: setattr(c, "rate", 7.0),
    ),
    "put together": (
        lambda self, x: x * sum(each.width for each in [*self.config.items, self.config.inner]),
        lambda c: setattr(c.items[0], "width", 7.0),
    ),
    "list": (lambda self, x: x * self.config.rates[0], lambda c: c.rates.insert(0, 7.0)),
    "dictionary": (lambda self, x: x * self.config.table["k"], lambda c: c.table.update(k=7.0)),
    "other name": (other_name, lambda c: setattr(c, "rate", 7.0)),
    "other name of a part": (other_name_of_a_part, lambda c: setattr(c.inner, "width", 7.0)),
    "index": (
        lambda self, x: x * self.config.items[0].width,
        lambda c: setattr(c.items[0], "width", 7.0),
    ),
    "loop": (loop, lambda c: setattr(c.items[0], "width", 7.0)),
    "getattr": (
        lambda self, x: x * getattr(self.config, "rate"),  # noqa: B009 (what the test is about)
        lambda c: setattr(c, "rate", 7.0),
    ),
    "method": (lambda self, x: x * self.config.get("rate"), lambda c: setattr(c, "rate", 7.0)),
    "__getitem__": (lambda self, x: x * self.config["rate"], lambda c: setattr(c, "rate", 7.0)),
    "vars": (lambda self, x: x * vars(self.config)["rate"], lambda c: setattr(c, "rate", 7.0)),
    "asdict": (
        lambda self, x: x * dataclasses.asdict(self.config)["rate"],
        lambda c: setattr(c, "rate", 7.0),
    ),
    "argument": (lambda self, x: applied(self.config, x), lambda c: setattr(c, "rate", 7.0)),
}

HOLDERS = {
    "namespace": (
        lambda: types.SimpleNamespace(k=2.0),
        lambda c: c.k,
        lambda c: setattr(c, "k", 7.0),
    ),
    "enumeration": (
        lambda: types.SimpleNamespace(mode=Mode.SLOW),
        lambda c: c.mode.value,
        lambda c: setattr(c, "mode", Mode.FAST),
    ),
    "named tuple": (
        lambda: types.SimpleNamespace(pair=Pair(2.0, 1)),
        lambda c: c.pair.a,
        lambda c: setattr(c, "pair", Pair(7.0, 1)),
    ),
    "easy dictionary": (lambda: Easy(k=2.0), lambda c: c.k, lambda c: c.update(k=7.0)),
    "easy dictionaries": (
        lambda: Easy(a=Easy(k=2.0)),
        lambda c: c.a.k,
        lambda c: c.a.update(k=7.0),
    ),
    "slots": (Slotted, lambda c: c.k, lambda c: setattr(c, "k", 7.0)),
    "property": (Computed, lambda c: c.k, lambda c: setattr(c, "_k", 7.0)),
    "__getattr__": (Delegating, lambda c: c.k, lambda c: setattr(c.inner, "k", 7.0)),
    "deque": (
        lambda: collections.deque([2.0]),
        lambda c: c[0],
        lambda c: c.appendleft(7.0),
    ),
    "UserList": (
        lambda: collections.UserList([2.0]),
        lambda c: c[0],
        lambda c: c.insert(0, 7.0),
    ),
    "default dictionary": (
        lambda: collections.defaultdict(float, a=2.0),
        lambda c: c["a"],
        lambda c: c.update(a=7.0),
    ),
    "bytes": (lambda: bytearray([2]), lambda c: c[0], lambda c: c.insert(0, 7)),
    "array": (lambda: array.array("f", [2]), lambda c: c[0], lambda c: c.insert(0, 7)),
    "NumPy array": (
        lambda: np.full(1, 2.0),
        lambda c: float(c[0]),
        lambda c: c.fill(7.0),
    ),
    "NumPy array in a list": (
        lambda: [np.full(1, 2.0)],
        lambda c: float(c[0][0]),
        lambda c: c[0].fill(7.0),
    ),
    "objects in a tuple": (lambda: (Inner(),), lambda c: c[0].width, lambda c: widen(c[0])),
    "objects in a dictionary": (
        lambda: {"a": Inner()},
        lambda c: c["a"].width,
        lambda c: widen(c["a"]),
    ),
}


def widen(inner):
    inner.width = 7.0


@pytest.mark.parametrize("name", READERS)
def test_a_configuration_that_changes_is_seen(name):
    body, change = READERS[name]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = Config()

        forward = body

    model = Model()
    check(model, lambda: change(model.config))


@pytest.mark.parametrize("name", HOLDERS)
def test_whatever_holds_a_number_is_seen(name):
    make, read, change = HOLDERS[name]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.held = make()

        def forward(self, x):
            return x * read(self.held)

    model, outside = Model(), make()
    check(model, lambda: change(model.held))
    check(lambda x: x * read(outside), lambda: change(outside))


def test_an_attribute_that_a_module_finds_by_itself_is_seen():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.options = {"k": 2.0}

        def __getattr__(self, name):
            return self.options["k"] if name == "k" else super().__getattr__(name)

        def forward(self, x):
            return x * self.k

    model = Model()
    check(model, lambda: model.options.update(k=7.0))


OPTIONS = {"k": 2.0}


@pytest.fixture
def options():
    OPTIONS.update(k=2.0)
    yield OPTIONS
    OPTIONS.update(k=2.0)


def times(x):
    return x * OPTIONS["k"]


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Reads(nn.Module):
    """Modules that read a global in several ways."""

    class Inherited(nn.Module):
        def forward(self, x):
            return times(x)

    class Inherits(Inherited):
        def forward(self, x):
            return super().forward(x)

    class ByProperty(nn.Module):
        @property
        def rate(self):
            return OPTIONS["k"]

        def forward(self, x):
            return x * self.rate

    class Decorated(nn.Module):
        @decorated
        def forward(self, x):
            return times(x)

    class ByFunction(nn.Module):
        def __init__(self):
            super().__init__()
            self.function = lambda x: times(x)

        def forward(self, x):
            return self.function(x)

    class ByMethodInALoop(nn.Module):
        class Part(nn.Module):
            def run(self, x):
                return times(x)

        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([self.Part()])

        def forward(self, x):
            for part in self.parts:
                x = part.run(x)
            return x


@pytest.mark.parametrize(
    "cls",
    [
        Reads.Inherits, Reads.ByProperty, Reads.Decorated, Reads.ByFunction, Reads.ByMethodInALoop,
    ],
)  # fmt: skip
def test_a_global_that_a_module_reads_is_seen(options, cls):
    check(cls(), lambda: options.update(k=7.0))


def test_a_global_that_a_function_reads_is_seen_however_it_is_called(options):
    functions = [times]
    check(lambda x: functions[0](x), lambda: options.update(k=3.0))
    check(lambda x: next(f(x) for f in functions), lambda: options.update(k=4.0))
    check(functools.partial(lambda f, x: f(x), times), lambda: options.update(k=5.0))
    check(lambda x: next(map(times, [x])), lambda: options.update(k=6.0))
    check(lambda x: flambeau.utils.checkpoint.checkpoint(times, x), lambda: options.update(k=7.0))
    check(decorated(times), lambda: options.update(k=8.0))

    class Times(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return times(x)

        @staticmethod
        def backward(ctx, cotangent):
            return cotangent

    check(lambda x: Times.apply(x), lambda: options.update(k=9.0))


def test_the_body_of_a_cached_function_is_seen(options):
    @functools.cache
    def rate():
        return OPTIONS["k"]

    def change():
        options.update(k=7.0)
        rate.cache_clear()

    check(lambda x: x * rate(), change)


def test_the_arguments_of_a_partial_function_are_seen():
    function = functools.partial(lambda x, k, inner: x * k * inner.width, k=2.0, inner=Inner())
    check(lambda x: function(x), lambda: function.keywords.update(k=7.0))
    check(lambda x: function(x), lambda: widen(function.keywords["inner"]))


def test_defaults_are_seen():
    held, inner = [2.0], Inner()

    def function(x, factors=held, part=inner):
        return x * factors[0] * part.width

    check(lambda x: function(x), lambda: held.insert(0, 7.0))
    check(function, lambda: widen(inner))


@pytest.mark.parametrize("globally", [False, True])
def test_the_state_of_hooks_is_seen(globally):
    class Hook:
        k = 2.0

        def __call__(self, module, args, output):
            return output * self.k

        def method(self, module, args, output):
            return output * self.k

    factor = [2.0]
    hook = Hook()
    for called, change in (
        (hook, lambda: setattr(hook, "k", 7.0)),
        (hook.method, lambda: setattr(hook, "k", 8.0)),
        (lambda module, args, output: output * factor[0], lambda: factor.insert(0, 9.0)),
    ):
        layer = nn.Identity()
        register = nn.modules.module.register_module_forward_hook
        with (register if globally else layer.register_forward_hook)(called):
            check(layer, change)


def test_tensors_with_attributes_are_seen():
    layer = nn.Linear(3, 3)
    layer.weight.rate = 2.0
    check(lambda x: layer(x) * layer.weight.rate, lambda: setattr(layer.weight, "rate", 7.0))


def test_what_a_weak_reference_leads_to_is_seen():
    inner = Inner()
    reference = weakref.ref(inner)
    check(lambda x: x * reference().width, lambda: widen(inner))


def test_what_runs_in_circles_ends():
    node = types.SimpleNamespace(k=2.0)
    node.next = node

    def down(x, it, depth):
        return x * it.k if depth == 0 else down(x, it.next, depth - 1)

    check(lambda x: down(x, node, 3), lambda: setattr(node, "k", 7.0))


@pytest.mark.filterwarnings("error")
def test_what_a_training_loop_counts_needs_no_program():
    class Meter:
        def __init__(self):
            self.total, self.history = 0.0, []

        def update(self, value):
            self.total += value
            self.history.append(value)

    class Model(nn.Module):
        instances = 0

        def __init__(self):
            super().__init__()
            Model.instances += 1
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(x)

    class Trainer:
        def __init__(self):
            self.model, self.meter = Model(), Meter()
            self.optimizer = flambeau.optim.SGD(self.model.parameters(), lr=0.1)
            self.step, self.losses = 0, []
            self.callbacks = [self.count]
            self.run = flambeau.compile(self.train_step)

        def count(self):
            self.step += 1

        def train_step(self, x):
            self.model.train()
            optimizer = self.optimizer
            optimizer.zero_grad()
            loss = self.model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        def train(self):
            for _ in range(4):
                loss = self.run(X)
                self.losses.append(loss.item())
                self.meter.update(loss.item())
                for callback in self.callbacks:
                    callback()
                Model()

    trainer = Trainer()
    trainer.train()
    assert (trainer.run.program_count, trainer.step) == (1, 4)
    assert trainer.losses[-1] < trainer.losses[0]


def test_text_may_run_in_a_dictionary_that_the_function_makes():
    inner = Inner()

    def function(x):
        names = {"held": inner}
        exec("rate = held.width", names)
        return x * names["rate"]

    check(function, lambda: widen(inner))


def test_a_weak_proxy_among_the_arguments_is_no_iterator():
    inner = Inner()
    run = flambeau.compile(lambda x, held: x * held[0].width)
    assert run(flambeau.ones(1), [weakref.proxy(inner)]).item() == inner.width
