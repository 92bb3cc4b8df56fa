"""Mixed precision by its older names warns as in PyTorch, and is what the newer ones give."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
import torch.cuda.amp

import flambeau
import flambeau.cuda.amp

CALLS = {
    "autocast": lambda lib: lib.cuda.amp.autocast(enabled=False),
    "GradScaler": lambda lib: lib.cuda.amp.GradScaler(enabled=False),
    "custom_fwd": lambda lib: lib.cuda.amp.custom_fwd(lambda ctx, x: x),
    "custom_bwd": lambda lib: lib.cuda.amp.custom_bwd(lambda ctx, x: x),
}


def parameters(lib: Any, name: str) -> list[str]:
    found = getattr(lib.cuda.amp, name)
    signature = inspect.signature(found.__init__ if inspect.isclass(found) else found)
    return [each for each in signature.parameters if each != "self"]


@pytest.mark.parametrize("name", CALLS)
def test_the_older_name_warns_and_takes_the_same(name: str) -> None:
    for lib in (torch, flambeau):
        with pytest.warns(FutureWarning, match=rf"amp\.{name}\("):
            CALLS[name](lib)
    assert parameters(flambeau, name) == parameters(torch, name)


def test_the_defaults_are_pytorchs() -> None:
    with pytest.warns(FutureWarning, match="autocast"):
        ours, theirs = (lib.cuda.amp.autocast(enabled=False) for lib in (flambeau, torch))
    assert (ours.device, str(ours.fast_dtype).rpartition(".")[2]) == ("cuda", "float16")
    assert (theirs.device, theirs.fast_dtype) == ("cuda", torch.float16)


@pytest.mark.skipif(flambeau.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_a_scaler_for_gpus_does_nothing() -> None:
    for lib in (torch, flambeau):
        with pytest.warns(UserWarning, match="GradScaler"):
            scaler = lib.amp.GradScaler()
        weight = lib.nn.Parameter(lib.ones(2))
        optimizer = lib.optim.SGD([weight], lr=0.5)
        scaler.scale(weight.sum()).backward()
        assert weight.grad.tolist() == [1, 1]
        scaler.step(optimizer)
        scaler.update()
        assert weight.tolist() == [0.5, 0.5]
        assert (scaler.is_enabled(), scaler.get_scale(), scaler.state_dict()) == (False, 1.0, {})
