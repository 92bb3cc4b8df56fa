"""PyTorch's public names exist, or their absence has a reason; and so do their parameters."""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import flambeau
from tests.conformance.namespace.absent import ABSENT, OWN
from tests.conformance.namespace.signatures import DIFFERENT, SECOND_NAMES

SPACES = sorted(ABSENT)


def space(lib: Any, path: str) -> Any:
    """The namespace ``path`` of a library."""
    found = lib
    for part in filter(None, path.split(".")):
        if not hasattr(found, part):
            importlib.import_module(f"{lib.__name__}.{path}")
        found = getattr(found, part)
    return found


def public(lib: Any, path: str) -> set[str]:
    """The names of a namespace that are the library's own, as far as one can tell."""
    room = space(lib, path)
    return {
        name
        for name in dir(room)
        if not name.startswith("_") and _is_own(lib, path, getattr(room, name, None), name)
    }


def _is_own(lib: Any, path: str, value: Any, name: str) -> bool:
    if isinstance(value, types.ModuleType):
        # What PyTorch loads when it is asked for is there or not, depending on what ran before;
        # `distributed` loads `numa`.
        if name in (*getattr(lib, "_lazy_modules", ()), "numa"):
            return False
        return not path and value.__name__.startswith(lib.__name__)
    if name in ("TYPE_CHECKING", "annotations"):
        return False
    # Fragments of documentation, and constants.
    if isinstance(value, str | dict | float) and path:
        return False
    origin = getattr(value, "__module__", None) or lib.__name__
    return not path or path == "Tensor" or origin.partition(".")[0] in (lib.__name__, "builtins")


def listed(path: str) -> dict[str, str]:
    return {name: reason for reason, names in ABSENT[path].items() for name in names.split()}


@pytest.mark.parametrize("path", SPACES)
def test_every_name_is_there_or_its_absence_has_a_reason(path: str) -> None:
    ours = space(flambeau, path)
    missing = {name for name in public(torch, path) if not hasattr(ours, name)}
    assert missing - set(listed(path)) == set()


@pytest.mark.parametrize("path", SPACES)
def test_what_is_said_to_be_absent_is_in_pytorch_and_not_here(path: str) -> None:
    theirs, ours = public(torch, path), space(flambeau, path)
    assert {name for name in listed(path) if name not in theirs or hasattr(ours, name)} == set()


@pytest.mark.parametrize("path", ["", "Tensor", "nn", "nn.functional", "fft"])
def test_nothing_is_there_that_pytorch_does_not_have(path: str) -> None:
    theirs = space(torch, path)
    own = set(OWN.get(path, "").split())
    assert {n for n in public(flambeau, path) - own if not hasattr(theirs, n)} == set()


def test_a_name_is_a_function_where_it_is_one_in_pytorch() -> None:
    differing = {
        name
        for name in public(flambeau, "") & public(torch, "")
        if callable(getattr(torch, name)) != callable(getattr(flambeau, name))
        or isinstance(getattr(torch, name), types.ModuleType)
        != isinstance(getattr(flambeau, name), types.ModuleType)
    }
    assert differing == set()


def test_what_is_function_and_method_in_pytorch_is_both_here() -> None:
    both = public(torch, "") & public(torch, "Tensor")
    functions = both & public(flambeau, "")
    methods = both & public(flambeau, "Tensor")
    # Modules for devices that there are not; a second name of a method that overwrites.
    assert functions - {"mtia", "xpu"} == methods - {"conj_physical_"}


# Parameters


def shared(path: str) -> Iterator[tuple[str, Any, Any]]:
    theirs, ours = space(torch, path), space(flambeau, path)
    for name in sorted(public(torch, path)):
        one, other = getattr(theirs, name, None), getattr(ours, name, None)
        if callable(one) and callable(other):
            yield name, one, other


def parameters(function: Any) -> list[inspect.Parameter] | None:
    """The parameters that a caller can name, or ``None`` if nobody knows."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD for each in found):
        return None
    return found


def names_of(found: list[inspect.Parameter], is_method: bool) -> list[str]:
    # Every operator takes `out`; what begins with an underscore is nobody's.
    names = [each.name for each in found]
    names = ["self", *names[1:]] if is_method else names
    return [name for name in names if name != "out" and not name.startswith("_")]


@pytest.mark.parametrize("path", SPACES)
def test_parameters_have_pytorchs_names_and_order(path: str) -> None:
    # Methods whose modules have not been imported yet are stand-ins.
    for name in dir(flambeau):
        getattr(flambeau, name)
    differing = {}
    for name, one, other in shared(path):
        theirs, ours = parameters(one), parameters(other)
        full = f"{path}.{name}" if path else name
        if theirs is None or ours is None or full in DIFFERENT:
            continue
        is_method = path == "Tensor"
        if names_of(theirs, is_method) != names_of(ours, is_method):
            differing[full] = (names_of(theirs, is_method), names_of(ours, is_method))
    assert differing == {}


def schema_names(name: str) -> set[str]:
    """The parameters of an operator whose signature Python does not know."""
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    known = [
        schema
        for schema in schemas
        if "Dimname" not in str(schema) and not any(each.is_out for each in schema.arguments)
    ]
    # Overloads for Python's numbers and lists are TorchScript's own.
    of_tensors = [schema for schema in known if "Tensor" in str(schema).partition("->")[0]]
    return {each.name for schema in of_tensors or known for each in schema.arguments} - {
        "self",
        "names",
    }


def missing_arguments(path: str, name: str, one: Any, other: Any) -> set[str]:
    """The arguments of an operator of PyTorch that ours does not take."""
    ours = parameters(other)
    if parameters(one) is not None or ours is None or isinstance(one, type):
        return set()
    prefix = f"{path}_" if path in ("linalg", "fft", "special") else ""
    names = names_of(ours, False)
    taken = {"input", *names, *(second for second, first in SECOND_NAMES.items() if first in names)}
    return schema_names(prefix + name) - taken


@pytest.mark.parametrize("path", ["", "linalg", "fft", "special", "nn.functional"])
def test_operators_take_every_argument_of_pytorchs(path: str) -> None:
    missing = {}
    for name, one, other in shared(path):
        full = f"{path}.{name}" if path else name
        absent = missing_arguments(path, name, one, other)
        if absent and full not in DIFFERENT:
            missing[full] = absent
    assert missing == {}


def test_signatures_that_are_said_to_differ_differ() -> None:
    stale = []
    for full in DIFFERENT:
        path, _, name = full.rpartition(".")
        one, other = (getattr(space(lib, path), name) for lib in (torch, flambeau))
        theirs, ours = parameters(one), parameters(other)
        is_method = path == "Tensor"
        same = theirs is None or ours is None or (
            names_of(theirs, is_method) == names_of(ours, is_method)
        )  # fmt: skip
        if same and not missing_arguments(path, name, one, other):
            stale.append(full)
    assert stale == []


@pytest.mark.parametrize("name", ["inv", "slogdet"])
def test_matrices_can_be_named(name: str) -> None:
    found = getattr(flambeau.linalg, name)(A=flambeau.eye(2))
    expected = getattr(torch.linalg, name)(A=torch.eye(2))
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]


@pytest.mark.parametrize("name", ["spherical_bessel_j0", "scaled_modified_bessel_k0"])
def test_arguments_of_bessel_functions_can_be_named(name: str) -> None:
    found = getattr(flambeau.special, name)(x=flambeau.ones(1))
    assert found.item() == pytest.approx(getattr(torch.special, name)(x=torch.ones(1)).item())
