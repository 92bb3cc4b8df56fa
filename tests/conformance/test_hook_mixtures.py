"""Random mixtures of hooks of all kinds, global ones among them: called as PyTorch calls them."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.modules import module as torch_module

import flambeau
from flambeau.nn import hooks as flambeau_hooks
from tests.conformance.scenario import plain

# How each kind is registered: on a module, or on all of them.
OWN: dict[str, Callable[..., Any]] = {
    "pre": lambda module, hook, first: module.register_forward_pre_hook(hook, prepend=first),
    "pre with keywords": lambda module, hook, first: module.register_forward_pre_hook(
        hook, prepend=first, with_kwargs=True
    ),
    "after": lambda module, hook, first: module.register_forward_hook(hook, prepend=first),
    "after with keywords": lambda module, hook, first: module.register_forward_hook(
        hook, prepend=first, with_kwargs=True
    ),
    "after always": lambda module, hook, first: module.register_forward_hook(
        hook, prepend=first, always_call=True
    ),
    "after with keywords always": lambda module, hook, first: module.register_forward_hook(
        hook, prepend=first, with_kwargs=True, always_call=True
    ),
    "backward": lambda module, hook, first: module.register_full_backward_hook(hook, prepend=first),
    "backward pre": lambda module, hook, first: module.register_full_backward_pre_hook(
        hook, prepend=first
    ),
}
EVERYWHERE: dict[str, Callable[..., Any]] = {
    "global pre": lambda owner, hook: owner.register_module_forward_pre_hook(hook),
    "global after": lambda owner, hook: owner.register_module_forward_hook(hook),
    "global after with keywords": lambda owner, hook: owner.register_module_forward_hook(
        hook, with_kwargs=True
    ),
    "global after always": lambda owner, hook: owner.register_module_forward_hook(
        hook, always_call=True
    ),
    "global backward": lambda owner, hook: owner.register_module_full_backward_hook(hook),
    "global backward pre": lambda owner, hook: owner.register_module_full_backward_pre_hook(hook),
}
KINDS = [*OWN, *EVERYWHERE]


def tree(lib: Any, rng: random.Random) -> Any:
    """A module with two others in it, each of which may return two results or fail."""

    class Leaf(lib.nn.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.weight = lib.nn.Parameter(lib.tensor([value, value + 1.0]))
            self.fails, self.returns_two = rng.random() < 0.1, rng.random() < 0.3

        def forward(self, x: Any, scale: float = 1.0) -> Any:
            if self.fails:
                raise KeyError("forward")
            y = x * self.weight * scale
            return (y, x + 1) if self.returns_two else y

    class Tree(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Leaf(2.0), Leaf(-1.0)

        def forward(self, x: Any, scale: float = 1.0) -> Any:
            y = self.first(x, scale=2.0)
            return self.second(y[0] if isinstance(y, tuple) else y)

    return Tree()


def noting(lib: Any, log: list[Any], label: str, names: dict[Any, str], action: str) -> Any:
    """A hook of any kind: it notes what it gets, and then does nothing, multiplies or fails."""

    def hook(module: Any, *given: Any) -> Any:
        log.append((label, names[module], plain(given, lib)))
        if action == "fail":
            raise ValueError("hook")
        return (
            multiplied(given[-1] if "after" in label else given[0]) if action == "change" else None
        )

    def multiplied(value: Any) -> Any:
        if "keywords" in label and "pre" in label:
            return None
        if isinstance(value, lib.Tensor):
            return value * 3
        if "after" in label:
            return None
        return tuple(each * 2 if isinstance(each, lib.Tensor) else each for each in value)

    return hook


def play(lib: Any, seed: int) -> list[Any]:
    """What happens in one game."""
    rng = random.Random(seed)
    log: list[Any] = []
    model = tree(lib, rng)
    names = {module: name for name, module in model.named_modules()}
    handles = []
    try:
        for i in range(rng.randint(2, 7)):
            kind, module = rng.choice(KINDS), rng.choice(list(names))
            action = rng.choice(["note"] * 6 + ["change"] * 4 + ["fail"])
            hook = noting(lib, log, f"{i} {kind}", names, action)
            first = rng.random() < 0.3
            handles.append(
                OWN[kind](module, hook, first)
                if kind in OWN
                else EVERYWHERE[kind](lib.nn.modules.module, hook)
            )
        for handle in handles:
            if rng.random() < 0.1:
                handle.remove()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                run(lib, rng, model, log)
            except (KeyError, ValueError, RuntimeError) as error:
                log.append(type(error).__name__)
        log.append(sorted({each.category.__name__ for each in caught}))
    finally:
        for handle in handles:
            handle.remove()
    return log


def run(lib: Any, rng: random.Random, model: Any, log: list[Any]) -> None:
    x = lib.tensor([1.0, -2.0], requires_grad=rng.random() < 0.7)
    given = x * 1 if rng.random() < 0.5 else x
    result = model(given, scale=0.5) if rng.random() < 0.5 else model(given)
    results = result if isinstance(result, tuple) else (result,)
    log.append(plain(results, lib))
    used = results if rng.random() < 0.6 else results[:1]
    sum(each.sum() for each in used).backward()
    log.append(plain([x.grad, *(each.grad for each in model.parameters())], lib))


@pytest.fixture(autouse=True)
def undecided():
    """Let global backward hooks be of either kind again."""
    yield
    torch_module._global_is_full_backward_hook = None
    flambeau_hooks._global_is_full_backward_hook = None


@pytest.mark.parametrize("block", range(10))
def test_hooks_are_called_with_pytorchs_arguments_in_its_order(block: int) -> None:
    for seed in range(20 * block, 20 * (block + 1)):
        assert play(flambeau, seed) == play(torch, seed), seed
