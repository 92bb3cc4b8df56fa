"""Every kind of value, given to a name that meant something else: what the name means then."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

import flambeau

BEFORE = {
    "nothing": lambda lib, module: None,
    "a plain value": lambda lib, module: setattr(module, "x", 1),
    "a plain None": lambda lib, module: setattr(module, "x", None),
    "a plain tensor": lambda lib, module: setattr(module, "x", lib.zeros(1)),
    "a parameter": lambda lib, module: setattr(module, "x", lib.nn.Parameter(lib.zeros(1))),
    "no parameter": lambda lib, module: module.register_parameter("x", None),
    "a buffer": lambda lib, module: module.register_buffer("x", lib.zeros(1)),
    "an unsaved buffer": lambda lib, module: module.register_buffer(
        "x", lib.zeros(1), persistent=False
    ),
    "no buffer": lambda lib, module: module.register_buffer("x", None),
    "no unsaved buffer": lambda lib, module: module.register_buffer("x", None, persistent=False),
    "a module": lambda lib, module: setattr(module, "x", lib.nn.ReLU()),
    "no module": lambda lib, module: module.add_module("x", None),
}


def flagged(tensor: Any, **flags: Any) -> Any:
    vars(tensor).update(flags)
    return tensor


VALUES = {
    "None": lambda lib: None,
    "a number": lambda lib: 3,
    "a string": lambda lib: "value",
    "a tensor": lambda lib: lib.ones(2),
    "a tensor that requires grad": lambda lib: lib.ones(2, requires_grad=True),
    "a tensor of a subclass": lambda lib: lib.ones(2).as_subclass(type("Sub", (lib.Tensor,), {})),
    "a parameter": lambda lib: lib.nn.Parameter(lib.ones(2)),
    "a tensor flagged as parameter": lambda lib: flagged(lib.ones(2), _is_param=True),
    "a buffer": lambda lib: lib.nn.Buffer(lib.ones(2)),
    "an unsaved buffer": lambda lib: lib.nn.Buffer(lib.ones(2), persistent=False),
    "a tensor flagged as buffer": lambda lib: flagged(
        lib.ones(2), _is_buffer=True, persistent=False
    ),
    "an uninitialized parameter": lambda lib: lib.nn.UninitializedParameter(),
    "a module": lambda lib: lib.nn.Tanh(),
    "a class": lambda lib: lib.nn.Tanh,
    "a list of modules": lambda lib: [lib.nn.Tanh()],
}
ACTIONS = {
    "assigned": lambda module, value: setattr(module, "x", value),
    "register_parameter": lambda module, value: module.register_parameter("x", value),
    "register_buffer": lambda module, value: module.register_buffer("x", value),
    "register_buffer, not persistent": lambda module, value: module.register_buffer(
        "x", value, persistent=False
    ),
    "add_module": lambda module, value: module.add_module("x", value),
    "set_submodule": lambda module, value: module.set_submodule("x", value),
    "set_submodule, strictly": lambda module, value: module.set_submodule("x", value, strict=True),
}


def meaning(module: Any) -> Any:
    """Where the name stands, and what is there."""
    tables = [
        (table, type(getattr(module, table)["x"]).__name__)
        for table in ("_parameters", "_buffers", "_modules")
        if "x" in getattr(module, table)
    ]
    plain = type(vars(module)["x"]).__name__ if "x" in vars(module) else None
    return tables, plain, "x" in module._non_persistent_buffers_set


def outcome(lib: Any, before: str, action: str, value: str) -> Any:
    module = lib.nn.Module()
    BEFORE[before](lib, module)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ACTIONS[action](module, VALUES[value](lib))
        except Exception as error:  # noqa: BLE001 - whatever is raised is the outcome
            return type(error).__name__, meaning(module)
    return "done", meaning(module), [each.category.__name__ for each in caught]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("before", BEFORE)
def test_every_way_to_give_a_name_a_value_does_what_pytorch_does(before: str, value: str) -> None:
    for action in ACTIONS:
        if (action, value) == ("add_module", "an uninitialized parameter"):
            # PyTorch fails while it writes the message: ValueError in the place of TypeError.
            continue
        found, expected = (
            outcome(flambeau, before, action, value),
            outcome(torch, before, action, value),
        )
        assert found == expected, action
        assert len(found[1][0]) + (found[1][1] is not None) <= 1, "it stands in two places"
