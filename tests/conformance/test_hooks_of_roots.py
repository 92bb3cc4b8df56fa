"""Hooks of the tensors that a run of `autograd.grad` begins with, where it leads to no target."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

ROOTS = {
    "a result": "y",
    "a leaf": "w",
    "two": "yz",
    "two leaves": "wu",
    "a result that leads": "z",
}


@pytest.mark.parametrize("target", ["u", "w", "z", "v"])
@pytest.mark.parametrize("roots", ROOTS)
def test_hooks_that_are_called(roots, target):
    def use(lib: Any) -> Any:
        called: list[str] = []
        named = {name: lib.ones(2, requires_grad=True) for name in "wuv"}
        named["y"], named["z"] = named["w"] * 2, named["u"] * 1
        named["y"].retain_grad()
        for name, each in named.items():
            each.register_hook(lambda grad, name=name: called.append(name))
        outputs = [named[each] for each in ROOTS[roots]]
        ones = [lib.ones(2)] * len(outputs)
        gradients = lib.autograd.grad(outputs, [named[target]], ones, allow_unused=True)
        shown = [None if each is None else each.tolist() for each in (*gradients, named["y"].grad)]
        return called, shown

    assert use(flambeau) == use(torch)
