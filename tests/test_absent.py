"""PyTorch's names that are not there: what is said of them, and that nothing else changes."""

import copy
import doctest
import inspect
import pickle
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import flambeau
from flambeau._absent import advice
from flambeau._names import ADVICE

ROOT = Path(__file__).parent.parent
NAMES = sorted(advice())
REFERENCE = re.compile(r"\b(?:flambeau|jax|numpy|scipy)(?:\.\w+)+")


def room_of(name):
    """The module in which a name is missing, and the last part of the name."""
    room, _, last = name.rpartition(".")
    return import_module(f"flambeau.{room}" if room else "flambeau"), last


def is_there(name):
    room, last = room_of(name)
    is_package = hasattr(room, "__path__")
    return hasattr(room, last) or (is_package and find_spec(f"{room.__name__}.{last}") is not None)


def resolve(reference):
    """What a dotted name stands for."""
    first, *rest = reference.split(".")
    found, path = import_module(first), first
    for part in rest:
        path = f"{path}.{part}"
        found = getattr(found, part) if hasattr(found, part) else import_module(path)
    return found


def test_what_is_said_to_be_absent_is_absent():
    assert [name for name in NAMES if is_there(name)] == []


def test_the_error_says_what_to_do():
    silent = []
    for name in NAMES:
        room, last = room_of(name)
        with pytest.raises(AttributeError) as error:
            getattr(room, last)
        expected = f"module {room.__name__!r} has no attribute {last!r}: {advice()[name]}"
        if str(error.value) != expected:
            silent.append(name)
    assert silent == []


def test_no_name_has_two_advices():
    words = [name for names in ADVICE.values() for name in names.split()]
    assert len(words) == len(set(words))


def test_what_an_advice_names_is_there():
    references = {each for text in ADVICE for each in REFERENCE.findall(text)}
    assert len(references) > 30
    for each in references:
        resolve(each)


def test_methods_and_functions_that_an_advice_names_without_a_module_are_there():
    assert callable(flambeau.Tensor.masked_fill)
    assert callable(flambeau.Tensor.masked_select)
    assert callable(flambeau.Tensor.exponential_)
    for name in ("bernoulli", "multinomial", "poisson"):
        assert callable(getattr(flambeau, name))
    assert callable(flambeau.nn.functional.grouped_mm)
    special = import_module("scipy.special")
    [text] = [text for text, names in ADVICE.items() if "special.airy_ai" in names]
    listed = re.findall(r"\b(?:y\d|airy|eval_\w+)", text)
    assert len(listed) == 11
    assert all(callable(getattr(special, name)) for name in listed)


def test_coordinates_and_values_make_a_dense_tensor():
    indices, values = flambeau.tensor([[0, 1, 1], [1, 0, 0]]), flambeau.tensor([3.0, 4.0, 5.0])
    dense = flambeau.zeros((2, 2)).index_put(tuple(indices), values, accumulate=True)
    assert dense.tolist() == [[0, 3], [9, 0]]


def test_a_model_is_exported_as_the_advice_says():
    import jax
    import jax.export

    net = flambeau.nn.Linear(2, 3)
    weights = {name: each.detach().jax() for name, each in net.named_parameters()}
    function = jax.jit(lambda weights, x: flambeau.func.functional_call(net, weights, x))
    exported = jax.export.export(function)(weights, flambeau.ones(1, 2).jax())
    assert "stablehlo.dot_general" in exported.mlir_module()
    net.requires_grad_(False)
    assert "dot_general" in str(jax.make_jaxpr(net)(flambeau.ones(1, 2)))
    counted = jax.jit(net).lower(flambeau.ones(1, 2)).compile().cost_analysis()
    assert counted is not None
    assert counted["flops"] > 0


def test_the_error_is_one_that_python_knows():
    assert not hasattr(flambeau, "package")
    assert getattr(flambeau.nn, "grad", None) is None
    with pytest.raises(AttributeError) as error:
        _ = flambeau.package
    # Without the object, Python does not guess another name.
    assert (error.value.name, error.value.obj) == ("package", None)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("import flambeau.package", "package"),
        ("from flambeau.package import PackageImporter", "package"),
        ("import flambeau.distributed.pipelining", "distributed.pipelining"),
        ("from flambeau.nn.qat import Linear", "nn.qat"),
        ("from flambeau.nn import grad, Linear", "nn.grad"),
        ("from flambeau import package", "package"),
        ("from flambeau.cuda import ExternalStream", "cuda.ExternalStream"),
    ],
)
def test_an_import_ends_with_the_advice(statement, name):
    with pytest.raises(ModuleNotFoundError) as error:
        exec(statement, {})
    assert str(error.value) == f"there is no 'flambeau.{name}': {advice()[name]}"


def test_other_imports_fail_as_ever():
    for name in ("flambeau.nothing", "flambeau.nn.nothing", "nothing.package"):
        with pytest.raises(ModuleNotFoundError, match="No module named") as error:
            import_module(name)
        assert error.value.name in (name, "nothing")
    with pytest.raises(ImportError, match="cannot import name 'nothing' from 'flambeau'"):
        exec("from flambeau import nothing", {})


def test_whoever_asks_for_a_module_is_told_that_there_is_none():
    assert find_spec("flambeau.package") is None
    assert find_spec("flambeau.distributed.pipelining") is None
    assert find_spec("flambeau.nn") is not None
    assert "package" not in {each.name for each in pkgutil.iter_modules(flambeau.__path__)}
    # GLOBAL 'flambeau.package' 'PackageImporter'
    with pytest.raises(ModuleNotFoundError, match=r"flambeau\.package': code is not saved"):
        pickle.loads(b"cflambeau.package\nPackageImporter\n.")
    assert not [name for name in sys.modules if name.startswith("flambeau.package")]


@pytest.mark.parametrize("room", ["", "nn", "nn.functional", "optim", "utils", "cuda", "jit"])
def test_of_other_names_python_says_what_it_always_says(room):
    module = import_module(f"flambeau.{room}" if room else "flambeau")
    for name in ("nothing", "_nothing", "__nothing__"):
        with pytest.raises(AttributeError) as error:
            getattr(module, name)
        assert str(error.value) == f"module {module.__name__!r} has no attribute {name!r}"
        assert (error.value.name, error.value.obj) == (name, module)


def test_the_advice_is_read_when_a_name_is_missing():
    code = (
        "import copy, inspect, flambeau, flambeau.cuda; "
        "inspect.unwrap(flambeau.nn); inspect.getmembers(flambeau.optim); dir(flambeau.utils); "
        "from flambeau._absent import advice; before = advice.cache_info().currsize; "
        "hasattr(flambeau, 'package'); print(before, advice.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0 1\n"


def test_modules_are_looked_into_as_ever():
    for module in (flambeau.nn, flambeau.optim, flambeau.autograd, flambeau.jit):
        assert not {"Absent", "absent"} & set(dir(module))
        assert inspect.unwrap(module) is module
        assert inspect.getmodule(module) is module
        assert doctest.DocTestFinder().find(module)
    assert dict(inspect.getmembers(flambeau.nn))["Linear"] is flambeau.nn.Linear
    assert pickle.loads(pickle.dumps(flambeau.nn.Linear)) is flambeau.nn.Linear
    assert copy.copy(flambeau.nn.functional.relu) is flambeau.nn.functional.relu


def test_what_the_page_of_differences_advises_is_what_errors_advise():
    page = (ROOT / "docs" / "differences.md").read_text()
    section = page.partition("## What is absent\n")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    assert len(named) > 8
    assert [name for name in named if name not in advice()] == []


def test_a_script_is_told_that_there_are_no_other_processes():
    import flambeau.distributed as dist

    assert dist.is_available()
    assert not dist.is_initialized()
    assert flambeau.distributed is dist
    with pytest.raises(AttributeError, match=r"no attribute 'pipelining': one process may own"):
        _ = dist.pipelining


@pytest.mark.parametrize(
    ("name", "meant"), [("rand_lik", "rand_like"), ("manual_sed", "manual_seed"), ("xyzzyq", None)]
)
def test_a_misspelt_name_is_told_although_there_are_many(name, meant):
    with pytest.raises(AttributeError) as found:
        getattr(flambeau, name)
    more = "" if meant is None else f". Did you mean: {meant!r}?"
    assert str(found.value) == f"module 'flambeau' has no attribute {name!r}{more}"
    assert type(found.value).__name__ == "AttributeError"
    assert str(pickle.loads(pickle.dumps(found.value))) == str(found.value)
