"""What a function reads outside itself is seen, however its code gets there."""

import collections
import copy
import dataclasses
import functools
import os
import sys
import threading
import types
import weakref
from pathlib import Path

import pytest

import flambeau
from flambeau import nn
from flambeau.compile.reading import interception
from tests.compile.following import X, check
from tests.compile.holding import HOLDERS, HOLDERS_OF_OBJECTS


class Box:
    """An object with one number, which Python's operators read."""

    def __init__(self, rate=2.0):
        self.rate = rate

    def __mul__(self, x):
        return x * self.rate

    def __bool__(self):
        return self.rate > 3

    def __len__(self):
        return int(self.rate)

    def __eq__(self, other):
        return self.rate == other

    __hash__ = object.__hash__

    def __contains__(self, other):
        return self.rate == other

    def __iter__(self):
        return iter([self.rate])

    def __call__(self):
        return self.rate

    def __getitem__(self, key):
        return self.rate

    def __enter__(self):
        return self.rate

    def __exit__(self, *exception):
        return None

    def __lt__(self, other):
        return self.rate < other

    def __float__(self):
        return self.rate


@dataclasses.dataclass
class Holder:
    box: object


Pair = collections.namedtuple("Pair", "box")


def by_keywords(*args, **kwargs):
    return args[0] * args[1].rate * kwargs["other"].rate


def nested(box, x):
    def inner(it):
        return x * it.rate

    return inner(box)


def unpacked(box, x):
    (rate,) = box
    return x * rate


def matched(box, x):
    match box:
        case Box(rate=2.0):
            return x
        case _:
            return x * 2


def entered(box, x):
    with box as rate:
        return x * rate


READERS = {
    "parameter of a lambda": lambda box, x: (lambda it: x * it.rate)(box),  # noqa: PLC3002
    "parameter of a nested function": nested,
    "*args": lambda box, x: by_keywords(x, box, other=Box(1.0)),
    "**kwargs": lambda box, x: by_keywords(x, Box(1.0), other=box),
    "*": lambda box, x: box * x,
    "bool": lambda box, x: x * 2 if box else x,
    "len": lambda box, x: x * len(box),
    "==": lambda box, x: x * 2 if box == 7.0 else x,
    "in": lambda box, x: x * 2 if 7.0 in box else x,
    "iteration": lambda box, x: x * next(iter(box)),
    "unpacking": unpacked,
    "call": lambda box, x: x * box(),
    "index": lambda box, x: x * box[0],
    "with": entered,
    "<": lambda box, x: x * 2 if box < 5.0 else x,
    "float": lambda box, x: x * float(box),
    "match": matched,
    "dataclass made inside": lambda box, x: x * Holder(box).box.rate,
    "named tuple made inside": lambda box, x: x * Pair(box).box.rate,
    "partial made inside": lambda box, x: functools.partial(lambda it, y: y * it.rate, box)(x),
    "copy": lambda box, x: x * copy.copy(box).rate,
    "sort": lambda box, x: x * max([box, Box(1.0)], key=lambda each: each.rate).rate,
    "weak reference made inside": lambda box, x: x * weakref.ref(box)().rate,
}


@pytest.mark.parametrize("name", READERS)
def test_an_attribute_is_seen(name):
    box = Box()
    check(lambda x: READERS[name](box, x), lambda: setattr(box, "rate", 7.0))


WAYS = {**HOLDERS, **HOLDERS_OF_OBJECTS}


@pytest.mark.parametrize("name", WAYS)
def test_what_holds_an_object_is_followed(name):
    hold, get = WAYS[name]
    box = Box()
    held = hold(box)
    check(lambda x: x * get(held).rate, lambda: setattr(box, "rate", 7.0))


def test_globals_that_are_absent_at_first_are_seen(monkeypatch):
    def later(x):
        try:
            return x * LATER
        except NameError:
            return x

    check(later, lambda: monkeypatch.setitem(globals(), "LATER", 7.0))
    check(lambda x: x * globals()["LATER"], lambda: monkeypatch.setitem(globals(), "LATER", 8.0))
    monkeypatch.undo()
    assert "LATER" not in globals()


def test_the_getattr_of_a_module_is_seen(monkeypatch):
    module = types.ModuleType("computes")
    exec("RATE = 2.0\ndef __getattr__(name): return RATE", vars(module))
    check(lambda x: x * module.anything, lambda: setattr(module, "RATE", 7.0))
    monkeypatch.setitem(os.environ, "FLAMBEAU_TEST_RATE", "2")
    check(
        lambda x: x * float(os.environ["FLAMBEAU_TEST_RATE"]),
        lambda: monkeypatch.setitem(os.environ, "FLAMBEAU_TEST_RATE", "7"),
    )
    check(
        lambda x: x * float(os.getenv("FLAMBEAU_TEST_RATE", "1")),
        lambda: monkeypatch.setitem(os.environ, "FLAMBEAU_TEST_RATE", "5"),
    )


def test_a_function_that_stands_on_a_class_is_seen():
    def first():
        return None

    def second():
        return None

    class Holder:
        held = first

        def __class_getitem__(cls, key):
            return cls.held

    first.rate, second.rate = 2.0, 7.0
    check(lambda x: x * Holder[0].rate, lambda: setattr(Holder, "held", second))


class Twice(nn.Module):
    def forward(self, x):
        return x * 2


def containers_of_modules():
    """Modules that are looked into but not called, and how they change."""
    chain, modules = nn.Sequential(nn.Identity()), nn.ModuleDict({"a": nn.Identity()})
    listed, parameters = nn.ModuleList([nn.Identity()]), nn.ParameterList([flambeau.ones(3)])
    layer = nn.Linear(3, 3)

    class Trainer:
        layers = listed

        def run(self, x):
            for each in self.layers:
                x = each(x)
            return x

    return {
        "index": (lambda x: chain[0](x), lambda: chain.__setitem__(0, Twice())),
        "loop": (Trainer().run, lambda: listed.append(Twice())),
        "key": (lambda x: modules["a"](x), lambda: modules.update({"a": Twice()})),
        "items": (lambda x: x * len([*modules.items()]), lambda: modules.update({"b": Twice()})),
        "parameters in a list": (
            lambda x: x * sum(parameters),
            lambda: parameters.append(flambeau.ones(3)),
        ),
        "named_parameters": (
            lambda x: x * len([*layer.named_parameters()]),
            lambda: layer.register_parameter("more", nn.Parameter(flambeau.ones(3))),
        ),
        "modules": (lambda x: x * len([*chain.modules()]), lambda: chain.append(Twice())),
        "state_dict": (
            lambda x: x * len(layer.state_dict()),
            lambda: layer.register_buffer("more", flambeau.ones(3)),
        ),
    }


@pytest.mark.parametrize("name", containers_of_modules())
def test_modules_that_are_not_called_are_seen(name):
    check(*containers_of_modules()[name])


def test_what_hooks_of_an_optimizer_read_is_seen():
    weight, box = flambeau.ones(3, requires_grad=True), Box()
    optimizer = flambeau.optim.SGD([weight], lr=1.0)

    def hook(*_):
        with flambeau.no_grad():
            weight.mul_(box.rate)

    optimizer.register_step_post_hook(hook)

    @flambeau.compile
    def step(x):
        weight.grad = x * 0
        optimizer.step()
        return weight * 1

    for rate in (2.0, 2.0, 7.0):
        box.rate = rate
        with flambeau.no_grad():
            weight.fill_(1.0)
        assert step(X).tolist() == [rate] * 3


def test_what_a_scheduler_says_and_a_patched_step_are_seen(monkeypatch):
    class Own(flambeau.optim.SGD):
        pass

    optimizer = Own([flambeau.ones(1, requires_grad=True)], lr=2.0)
    scheduler = flambeau.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    optimizer.step()
    check(lambda x: x * scheduler.get_last_lr()[0], scheduler.step)
    check(lambda x: x * scheduler.last_epoch, scheduler.step)

    @flambeau.compile
    def step(x):
        optimizer.param_groups[0]["params"][0].grad = x[:1] * 0
        optimizer.step()
        return optimizer.param_groups[0]["params"][0] * x

    step(X)

    def double(self, closure=None):
        with flambeau.no_grad():
            self.param_groups[0]["params"][0].mul_(2)

    monkeypatch.setattr(Own, "step", double)
    assert step(X)[0].item() == 2.0


def test_objects_that_the_function_makes_are_its_own():
    class Counter:
        def __init__(self):
            self.count, self.seen = 0, []

        def add(self, x):
            self.count += 1
            self.seen.append(x)
            return x * self.count

    @flambeau.compile
    def run(x):
        counter = Counter()
        return counter.add(counter.add(x)) + len(counter.seen)

    assert all(flambeau.equal(run(X), X * 2 + 2) for _ in range(3))
    assert run.program_count == 1


def test_classes_are_as_they_were_after_a_trace():
    box, before = Box(), dict(vars(Box))
    flambeau.compile(lambda x: x * box.rate)(X)
    assert dict(vars(Box)) == before

    def fails(x):
        raise ValueError(box.rate)

    with pytest.raises(ValueError, match="2"):
        flambeau.compile(fails)(X)
    assert dict(vars(Box)) == before
    assert not interception._telling
    assert sys.gettrace() is None or sys.gettrace().__module__ != interception.__name__


def test_a_debugger_keeps_its_hook():
    calls = []

    def debugger(frame, event, argument):
        calls.append(event)

    box, before = Box(), sys.gettrace()
    sys.settrace(debugger)
    try:
        check(lambda x: x * box.rate, lambda: setattr(box, "rate", 7.0))
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(before)
    assert calls


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring asks once a function")
def test_what_operators_and_rules_call_is_not_told_of(monkeypatch):
    told, on_event = set(), interception.Running._on_event

    def telling(self, frame, event, argument):
        told.add((Path(frame.f_code.co_filename).name, frame.f_code.co_name))
        return on_event(self, frame, event, argument)

    monkeypatch.setattr(interception.Running, "_on_event", telling)
    model = nn.Linear(3, 3)
    optimizer = flambeau.optim.AdamW(model.parameters())

    @flambeau.compile
    def step(x):
        model(x).square().sum().backward()
        optimizer.step()

    step(X)
    assert ("linear.py", "forward") in told
    assert not {("adam.py", "rule"), ("kernel.py", "_cotangents"), ("linear.py", "linear")} & told


SCALE = 2.0


def change_scale():
    global SCALE
    SCALE = 7.0


def scaled(x):
    return x * SCALE


@pytest.mark.parametrize("transform", [flambeau.func.vmap, flambeau.func.grad])
def test_functions_that_transformations_call_are_watched(monkeypatch, transform):
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 2.0)
    transformed = transform(lambda x: scaled(flambeau.relu(x)).sum())
    check(lambda x: transformed(x.reshape(3, 1) if transform is flambeau.func.vmap else x),
          change_scale)  # fmt: skip


def test_threads_that_trace_at_once_leave_classes_alone():
    box, results = Box(), []

    def work():
        results.append(flambeau.compile(lambda x: x * box.rate)(X))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all(flambeau.equal(each, X * 2) for each in results)
    assert len(results) == 4
    assert "__getattribute__" not in vars(Box)


class Wrapping(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) * 2


def test_a_module_that_the_function_makes_may_hold_others():
    net = nn.Linear(2, 2)
    net.weight.data.fill_(1.0)
    net.bias.data.fill_(0.0)

    @flambeau.compile(fullgraph=True)
    def step(x):
        return Wrapping(nn.Sequential(Wrapping(net), nn.Identity()))(x)

    x = flambeau.ones(1, 2)
    for _ in range(2):
        assert step(x).tolist() == [[8.0, 8.0]]
    net.register_forward_hook(lambda module, args, result: result + 1)
    assert step(x).tolist() == [[12.0, 12.0]]
    assert step.program_count == 2


MADE_INSIDE = {
    "a loss": lambda x: nn.CrossEntropyLoss()(x, flambeau.tensor([0, 1])),
    "a loss with weights": lambda x: nn.CrossEntropyLoss(flambeau.ones(2))(
        x, flambeau.tensor([0, 1])
    ),
    "an activation": lambda x: nn.Softmax(-1)(x),
    "a norm without parameters": lambda x: nn.LayerNorm(2, elementwise_affine=False)(x),
    "a container": lambda x: nn.Sequential(nn.ReLU(), nn.Sequential())(x),
    "a dropout of nothing": lambda x: nn.Dropout(0.0)(x),
}


@pytest.mark.parametrize("name", MADE_INSIDE)
def test_a_module_that_each_call_makes_needs_one_program(name):
    step = flambeau.compile(MADE_INSIDE[name], fullgraph=True)
    for scale in (1.0, 2.0, 3.0):
        x = flambeau.tensor([[1.0, -2.0], [0.5, 3.0]]) * scale
        assert flambeau.allclose(step(x), MADE_INSIDE[name](x))
    assert step.program_count == 1
