"""Classes of libraries, Python's builtins and tables by name that are changed after compiling."""

import builtins
import functools
import importlib
import os
import sys
import types
import warnings

import pytest

import flambeau
from flambeau import nn
from flambeau.compile import ownership
from flambeau.compile.errors import CompileWarning
from flambeau.compile.reading.names import names_of
from tests.compile.following import X, check


class Doubling(nn.Linear):
    """Goes on to the layer above it."""

    def forward(self, x):
        return super().forward(x) * 2


class Standing(nn.BatchNorm1d):
    """Inherits what its base inherits."""


def made(cls):
    return cls(3) if issubclass(cls, nn.BatchNorm1d) else cls(3, 3)


LAYERS = {
    "called": (nn.Linear, nn.Linear, lambda net, x: net(x)),
    "forward": (nn.Linear, nn.Linear, lambda net, x: net.forward(x)),
    "forward of the class": (nn.Linear, nn.Linear, lambda net, x: nn.Linear.forward(net, x)),
    "by super()": (Doubling, nn.Linear, lambda net, x: net(x)),
    "inherited, of the class itself": (Standing, Standing, lambda net, x: net(x[None])),
    "inherited, of its base": (nn.BatchNorm1d, nn.BatchNorm1d, lambda net, x: net.forward(x[None])),
    "inherited, of the base that defines it": (
        Standing, nn.BatchNorm1d.__mro__[1], lambda net, x: net.forward(x[None]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_a_replaced_forward_is_seen_however_it_is_called(name, monkeypatch):
    cls, changed, call = LAYERS[name]
    net = made(cls).eval()
    seven = lambda self, x: x * 7  # noqa: E731
    check(lambda x: call(net, x), lambda: monkeypatch.setattr(changed, "forward", seven))


def test_a_way_in_that_was_replaced_for_the_trace_is_seen_to_come_back(monkeypatch):
    net = nn.Identity()
    run = flambeau.compile(lambda x: net(x))
    with monkeypatch.context() as patch:
        patch.setattr(nn.Module, "__call__", lambda self, x: self.forward(x) * 3)
        assert flambeau.equal(run(X), X * 3)
    assert flambeau.equal(run(X), X)


@pytest.mark.parametrize("name", ["oct", "divmod"])
def test_a_replaced_builtin_is_seen(name, monkeypatch):
    functions = {"oct": lambda x: x * len(oct(9)), "divmod": lambda x: x * divmod(7, 3)[0]}
    others = {"oct": lambda number: "0o0000000", "divmod": lambda a, b: (7, 0)}
    check(functions[name], lambda: monkeypatch.setattr(builtins, name, others[name]))


def test_an_argument_that_a_partial_function_is_given_later_is_seen():
    function = functools.partial(lambda x, k=1, j=1: x * k + j, k=2)
    check(lambda x: function(x), lambda: function.keywords.update(j=5))


def test_annotations_are_seen():
    def helper(a: int):
        return a

    check(lambda x: x * len(helper.__annotations__), lambda: helper.__annotations__.update(b=int))


PACKAGE = """
RATE, MODE, COUNT = 2.0, None, 0

def scale(x):
    return x * RATE if MODE is None else x

def count(x):
    global COUNT
    COUNT += 1
    return x

class Settings:
    rate = 2.0
    rates = [2.0]

    @property
    def scale(self):
        return 2.0

    def get(self):
        return 2.0

    @classmethod
    def find(cls):
        return 2.0
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A module that counts as an installed package."""
    (tmp_path / "installed_settings.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("_PACKAGES", "_LIBRARIES"):
        before = getattr(ownership, name)
        monkeypatch.setattr(ownership, name, (*before, f"{tmp_path}{os.sep}"))
    ownership.is_of_library_module.cache_clear()
    yield importlib.import_module("installed_settings")
    del sys.modules["installed_settings"]
    ownership.is_of_library_module.cache_clear()


library = types.ModuleType("library")  # what the tests import as such
USES = {
    "attribute": (lambda held, x: x * held.rate, "rate", 7.0),
    "attribute of the class": (lambda held, x: x * library.Settings.rate, "rate", 7.0),
    "list": (lambda held, x: x * held.rates[0], "rates", [7.0]),
    "property": (lambda held, x: x * held.scale, "scale", property(lambda self: 7.0)),
    "method": (lambda held, x: x * held.get(), "get", lambda self: 7.0),
    "method of the class": (lambda held, x: x * library.Settings.get(held), "get", lambda s: 7.0),
    "class method": (lambda held, x: x * held.find(), "find", classmethod(lambda c: 7.0)),
    "class method of the class": (
        lambda held, x: x * library.Settings.find(), "find", classmethod(lambda c: 7.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_what_a_class_of_a_package_gives_is_seen(package, name, monkeypatch):
    monkeypatch.setitem(globals(), "library", package)
    use, changed, new = USES[name]
    held = package.Settings()
    assert ownership.is_of_library_class(package.Settings)
    check(lambda x: use(held, x), lambda: setattr(package.Settings, changed, new))


def test_settings_of_installed_packages_are_seen(package):
    assert ownership.is_of_library(package.scale.__code__)
    check(
        lambda x: package.scale(x),
        lambda: setattr(package, "RATE", 7.0),
        lambda: setattr(package, "MODE", "fast"),
    )


def test_what_an_installed_package_counts_is_its_own(package):
    run = flambeau.compile(lambda x: package.count(x) * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(flambeau.equal(run(X), X * 2) for _ in range(3))
    package.COUNT = 5
    run(X)
    assert run.program_count == 1


SCRIPT = """
K1, K2, number = 2.0, 3.0, 1
table = {"k": 2.0}

def computed(x):
    return x * globals()["K" + str(number)]

def whole(x):
    return x * sum(v for k, v in globals().items() if k in ("K1", "K9"))

def held(x):
    found = globals()
    return x * found.get("K%d" % number)

def named(x):
    return x * globals()["K1"] * globals().get("K2", 1.0) if "K1" in globals() else x
"""


def script(name):
    namespace = {"__name__": name}
    exec(SCRIPT, namespace)
    return namespace


@pytest.mark.parametrize("name", ["computed", "whole", "held", "named"])
def test_globals_that_are_looked_up_by_computed_names_are_seen(name):
    namespace = script("users")
    check(namespace[name], lambda: namespace.update(K1=7.0))


@pytest.mark.parametrize("change", [{"K1": 7.0}, {"K9": 7.0}])
def test_a_module_of_the_users_is_seen_as_a_whole(change):
    own = types.ModuleType("own")
    own.K1, key = 2.0, "K1"
    check(lambda x: x * vars(own)["K" + key[1:]], lambda: setattr(own, "K1", 7.0))
    check(
        lambda x: x * sum(own.__dict__[k] for k in vars(own) if k[0] == "K"),
        lambda: vars(own).update(change if "K9" in change else {"K1": 9.0}),
    )


BY_ITSELF = """
import sys

K1, number = 2.0, 1

def of_table(x):
    return x * sys.modules[__name__].__dict__["K" + str(number)]

def of_module(x):
    return x * getattr(sys.modules[__name__], "K" + str(number))
"""


@pytest.mark.parametrize("name", ["of_table", "of_module"])
def test_a_module_that_finds_itself_is_seen(name, monkeypatch):
    own = types.ModuleType("users_own")
    monkeypatch.setitem(sys.modules, "users_own", own)
    exec(BY_ITSELF, vars(own))
    check(vars(own)[name], lambda: setattr(own, "K1", 7.0))


def test_a_script_that_computes_names_of_globals_is_told_so(monkeypatch):
    # With `python -m pytest` the script that runs is pytest's, which is a library.
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "script.py", raising=False)
    for name in ("computed", "whole", "held"):
        namespace = script("__main__")
        run = flambeau.compile(namespace[name])
        with pytest.warns(CompileWarning, match=r"looks into globals\(\) by names that it"):
            run(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            for _ in range(3):
                namespace["loss"] = run(X)
            assert run.program_count == 2
            namespace["K1"] = 7.0
            assert flambeau.equal(run(X), namespace[name](X))
            assert run.program_count == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flambeau.compile(script("__main__")["named"])(X)


def test_names_that_stand_in_code_are_not_computed():
    namespace = script("users")
    found = {
        name: names_of(each.__code__).computes_globals
        for name, each in namespace.items()
        if isinstance(each, types.FunctionType)
    }
    assert found == {"computed": True, "whole": True, "held": True, "named": False}
