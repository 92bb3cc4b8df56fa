"""Classes, modules and functions that are patched after compiling: the result is the eager one."""

import importlib.util
import operator
import sys

import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from tests.compile.following import X, check, check_refused

LIBRARY = """
import flambeau
from flambeau.nn import functional as F

RATE = 1.0

def helper(x):
    return x * 2

def outer(x):
    return helper(x) + RATE

def rectified(x):
    return F.relu(x)
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A module of the user's, in a file."""
    path = tmp_path / "users_library.py"
    path.write_text(LIBRARY)
    spec = importlib.util.spec_from_file_location("users_library", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "users_library", module)
    return module


def seven(self, x):
    return x * 7


def eight(self, x):
    return x * 8


def finds_seven(self, name):
    return 7.0 if name == "plain" else object.__getattribute__(self, name)


class Family:
    """A module, its class and the classes above it, made again for each test."""

    def __init__(self):
        class Mixin:
            gain = 1.0

            def mixed(self, x):
                return x * self.gain

        class Base(nn.Module):
            offset = 0.0

            def prepared(self, x):
                return x + self.offset

            def forward(self, x):
                return self.prepared(x)

        class Model(Mixin, Base):
            scale = 2.0
            table = {"rate": 1.0}  # noqa: RUF012 (what the test is about)

            def __init__(self):
                super().__init__()
                self.plain = 1.0
                self.layer = nn.Linear(3, 3)

            @property
            def rate(self):
                return 2.0

            @staticmethod
            def fixed(x):
                return x * 1

            @classmethod
            def scaled(cls, x):
                return x * cls.scale

            def body(self, x):
                return x * self.scale

            def forward(self, x):
                x = self.mixed(super().forward(x)) * self.rate * self.table["rate"]
                x = self.layer(self.body(self.fixed(x) + self.scaled(x)) * self.plain)
                return x * getattr(self, "extra", 1.0)

        self.Mixin, self.Base, self.Model = Mixin, Base, Model
        self.model = Model()


CHANGES_OF_CLASSES = {
    "forward": lambda f: setattr(f.Model, "forward", seven),
    "forward of a base": lambda f: setattr(f.Base, "forward", seven),
    "method": lambda f: setattr(f.Model, "body", seven),
    "method of a mixin": lambda f: setattr(f.Mixin, "mixed", seven),
    "inherited method": lambda f: setattr(f.Base, "prepared", seven),
    "override that comes later": lambda f: setattr(f.Model, "prepared", seven),
    "attribute": lambda f: setattr(f.Model, "scale", 7.0),
    "tensor in its place": lambda f: setattr(f.Model, "scale", flambeau.full((3,), 7.0)),
    "attribute of a base": lambda f: setattr(f.Base, "offset", 7.0),
    "attribute of a mixin": lambda f: setattr(f.Mixin, "gain", 7.0),
    "item of a class's dictionary": lambda f: f.Model.table.update(rate=7.0),
    "property": lambda f: setattr(f.Model, "rate", property(lambda self: 7.0)),
    "property becomes a value": lambda f: setattr(f.Model, "rate", 7.0),
    "static method": lambda f: setattr(f.Model, "fixed", staticmethod(lambda x: x * 7)),
    "class method": lambda f: setattr(f.Model, "scaled", classmethod(lambda cls, x: x * 7)),
    "attribute that was not there": lambda f: setattr(f.Model, "extra", 7.0),
    "way of being called": lambda f: setattr(f.Model, "_call_impl", seven),
    "way of finding attributes": lambda f: setattr(f.Model, "__getattribute__", finds_seven),
    "call": lambda f: setattr(f.Model, "__call__", seven),
    "code of a method": lambda f: setattr(f.Model.body, "__code__", seven.__code__),
    "bases": lambda f: setattr(
        f.Model, "__bases__", (type("Other", (f.Mixin,), {"mixed": seven}), f.Base)
    ),
}

CHANGES_PAST_SETATTR = {
    "dictionary": lambda f: f.model.__dict__.__setitem__("plain", 7.0),
    "vars": lambda f: vars(f.model).update(plain=7.0),
    "object": lambda f: object.__setattr__(f.model, "plain", 7.0),
    "over an attribute of the class": lambda f: vars(f.model).update(scale=7.0),
    "where nothing was": lambda f: vars(f.model).update(extra=7.0),
    "forward": lambda f: vars(f.model).update(forward=lambda x: x * 7),
    "method": lambda f: vars(f.model).update(body=lambda x: x * 7),
}

CHANGES_OF_INSTANCES = {
    "forward": lambda f: setattr(f.model, "forward", lambda x: x * 7),
    "forward of a child": lambda f: setattr(f.model.layer, "forward", lambda x: x * 7),
    "method": lambda f: setattr(f.model, "body", lambda x: x * 7),
}


@pytest.mark.parametrize("name", CHANGES_OF_CLASSES)
def test_a_patched_class_is_seen(name):
    family = Family()
    check(family.model, lambda: CHANGES_OF_CLASSES[name](family))


@pytest.mark.parametrize("name", CHANGES_PAST_SETATTR)
def test_an_attribute_written_past_setattr_is_seen(name):
    family = Family()
    check(family.model, lambda: CHANGES_PAST_SETATTR[name](family))


@pytest.mark.parametrize("name", CHANGES_OF_INSTANCES)
def test_a_method_of_an_instance_is_seen(name):
    family = Family()
    check(family.model, lambda: CHANGES_OF_INSTANCES[name](family))


def test_equal_values_written_past_setattr_need_no_program():
    family = Family()
    run = flambeau.compile(family.model)
    for _ in range(12):
        vars(family.model)["plain"] = float("1.0")
        run(X)
    assert run.program_count == 1


def test_a_number_of_another_type_is_seen():
    class Times(nn.Module):
        factor = 2

        def forward(self, x):
            return x.to(flambeau.int64) * self.factor

    check(Times(), lambda: setattr(Times, "factor", 2.0))


def test_a_method_that_only_a_loop_calls_is_seen():
    class Part(nn.Module):
        def run(self, x):
            return x * 2

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([Part()])

        def forward(self, x):
            for part in self.parts:
                x = part.run(x)
            return x

    check(Whole(), lambda: setattr(Part, "run", seven))


def test_the_class_of_an_object_is_seen():
    class Activation:
        gain = 2.0

        def __call__(self, x):
            return x * self.gain

        def run(self, x):
            return x * 2

    activation = Activation()
    check(lambda x: activation(x), lambda: setattr(Activation, "gain", 7.0))
    check(lambda x: activation(x), lambda: setattr(Activation, "__call__", eight))
    check(lambda x: activation.run(x), lambda: setattr(activation, "run", lambda x: x * 9))
    check(lambda x: Activation().run(x), lambda: setattr(Activation, "run", seven))


def test_a_custom_function_is_seen():
    class Times(flambeau.autograd.Function):
        rate = 2.0

        @staticmethod
        def forward(ctx, x):
            return x * Times.rate

        @staticmethod
        def backward(ctx, cotangent):
            return cotangent * Times.rate

    check(lambda x: Times.apply(x), lambda: setattr(Times, "rate", 7.0))
    new = staticmethod(lambda ctx, x: x * 9)
    check(lambda x: Times.apply(x), lambda: setattr(Times, "forward", new))


@pytest.mark.parametrize("name", ["helper", "RATE"])
def test_a_patched_module_is_seen(library, monkeypatch, name):
    value = 7.0 if name == "RATE" else (lambda x: x * 7)
    check(lambda x: library.outer(x), lambda: monkeypatch.setattr(library, name, value))


def test_a_module_imported_inside_is_seen(library, monkeypatch):
    def whole(x):
        import users_library

        return users_library.helper(x)

    def part(x):
        from users_library import helper

        return helper(x)

    check(whole, lambda: monkeypatch.setattr(library, "helper", lambda x: x * 7))
    check(part, lambda: monkeypatch.setattr(library, "helper", lambda x: x * 8))


def test_a_patched_function_of_flambeau_is_seen(library, monkeypatch):
    def patch(factor):
        return lambda: monkeypatch.setattr(F, "relu", lambda x, inplace=False: x * factor)

    check(lambda x: F.relu(x), patch(3))
    check(lambda x: nn.functional.relu(x), patch(4))
    check(library.rectified, patch(5))
    check(nn.ReLU(), patch(6))
    check(lambda x: flambeau.exp(x), lambda: monkeypatch.setattr(flambeau, "exp", lambda x: x * 7))


def test_a_patched_function_of_flambeau_is_seen_by_a_name_that_is_computed(monkeypatch):
    def patch(module, name, factor):
        return lambda: monkeypatch.setattr(module, name, lambda x, **options: x * factor)

    class Activation(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def forward(self, x):
            return getattr(F, self.name)(x)

    class Two(nn.Module):
        first, second = "tanh", "silu"

        def forward(self, x):
            named = operator.attrgetter(self.first)
            return named(nn.functional)(x) + vars(F)[self.second](x)

    check(Activation("relu"), patch(F, "relu", 3))
    check(nn.Sequential(Activation("elu"), nn.ReLU()), patch(F, "elu", 4))
    check(lambda x: getattr(flambeau, "e" + "xp")(x), patch(flambeau, "exp", 5))
    check(Two(), patch(F, "tanh", 6))
    check(Two(), patch(F, "silu", 7))


@pytest.mark.parametrize("name", ["__call__", "_call_impl"])
def test_a_patched_call_of_all_modules_is_seen(monkeypatch, name):
    old = getattr(nn.Module, name)
    new = lambda self, *args: old(self, *args) + 7  # noqa: E731
    check(nn.Sequential(nn.ReLU()), lambda: monkeypatch.setattr(nn.Module, name, new))


@pytest.mark.parametrize("cls", [nn.ReLU, nn.Sequential])
def test_a_patched_layer_is_seen(monkeypatch, cls):
    check(nn.Sequential(nn.ReLU()), lambda: monkeypatch.setattr(cls, "forward", seven))


def made():
    def function(x, rate=2.0, *, offset=0.0):
        return x * rate + offset

    return function


@pytest.mark.parametrize(
    "change",
    [
        lambda f: setattr(f, "__defaults__", (7.0,)),
        lambda f: setattr(f, "__kwdefaults__", {"offset": 7.0}),
        lambda f: f.__kwdefaults__.update(offset=7.0),
        lambda f: setattr(f, "__code__", (lambda x, rate=1: x * 7).__code__),
    ],
)
def test_a_function_changed_in_place_is_seen(change):
    function = made()
    check(lambda x: function(x), lambda: change(function))
    function = made()
    check(function, lambda: change(function))


def test_a_parametrization_is_seen():
    class Times(nn.Module):
        rate = 2.0

        def forward(self, weight):
            return weight * self.rate

    layer = nn.Linear(3, 3)
    register = nn.utils.parametrize.register_parametrization
    check(layer, lambda: register(layer, "weight", Times()))
    check(layer, lambda: setattr(layer.parametrizations.weight[0], "rate", 7.0))
    check(layer, lambda: setattr(Times, "forward", lambda self, weight: weight * 9))
    remove = nn.utils.parametrize.remove_parametrizations
    check(layer, lambda: remove(layer, "weight", leave_parametrized=False))


def test_pruning_is_seen():
    layer = nn.Linear(3, 3)
    check(layer, lambda: nn.utils.prune.random_unstructured(layer, "weight", amount=0.7))


class Scaled(flambeau.Tensor):
    """A tensor with a method and a class attribute of its own."""

    rate = 2.0

    def scaled(self):
        return self * self.rate


MEMBERS = {
    "method": ("abs", lambda x: x.abs()),
    "operator": ("__add__", lambda x: x + x),
    "operator from the right": ("__rsub__", lambda x: 1.0 - x),
    "in place": ("add_", lambda x: x.clone().add_(1.0)),
    "property": ("mT", lambda x: x.reshape(1, 3).mT),
    "item": ("__getitem__", lambda x: x[0]),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_tensor_that_are_replaced_are_seen(name, monkeypatch):
    member, function = MEMBERS[name]
    value = property(lambda self: self * 7) if member == "mT" else lambda self, *args: self * 7
    run = flambeau.compile(function)
    before = run(X)
    monkeypatch.setattr(flambeau.Tensor, member, value)
    for _ in range(2):
        assert flambeau.equal(run(X).flatten(), X * 7)
    monkeypatch.undo()
    assert flambeau.equal(run(X), before)
    assert run.program_count == 2


def test_members_of_subclasses_of_tensor_are_seen(monkeypatch):
    weight = flambeau.ones(3).as_subclass(Scaled)
    run = flambeau.compile(lambda x: x + weight.scaled())
    assert flambeau.equal(run(X), X + 2)
    monkeypatch.setattr(Scaled, "rate", 7.0)
    assert flambeau.equal(run(X), X + 7)
    monkeypatch.setattr(Scaled, "scaled", lambda self: self * 5)
    assert flambeau.equal(run(X), X + 5)
    monkeypatch.undo()
    assert flambeau.equal(run(X), X + 2)


def test_operators_that_are_first_used_in_a_program_patch_nothing():
    run = flambeau.compile(lambda x: x * 2)
    run(X)
    flambeau.ones(2, 2).geqrf()
    run(X)
    assert run.program_count == 1


def test_a_class_of_tensors_is_changed_at_every_call(monkeypatch):
    monkeypatch.setattr(Scaled, "rate", 2.0)

    def function(x):
        Scaled.rate += 1.0
        return x * 2

    check_refused(function, r"changes Scaled\.rate", X)
    assert Scaled.rate == 4.0
