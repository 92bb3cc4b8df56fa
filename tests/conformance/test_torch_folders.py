"""Folders of `torch.distributed.checkpoint`: each library reads what the other has written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as theirs
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import get_state_dict as their_state_dict

import flambeau
import flambeau.distributed.checkpoint as ours
from flambeau.distributed.checkpoint.state_dict import get_state_dict as our_state_dict

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "complex64", "complex128", "float8_e4m3fn",
]  # fmt: skip


def state_of(lib: Any) -> dict[str, Any]:
    numbers = lib.arange(-3, 3).reshape(2, 3)
    tied = lib.arange(4.0)
    return {
        "dtypes": {name: numbers.to(getattr(lib, name)) for name in DTYPES},
        "shapes": {
            "none": lib.tensor(2.5), "empty": lib.zeros(0, 3), "view": numbers.t()[1:],
            "expanded": lib.ones(1, 2).expand(3, 2),
        },
        "tied": {"one": tied, "two": tied},
        "numbers": [1, 2.5, 1j, True, None, "text", b"bytes"],
        "nested": [{"a": 1, "deep": [[lib.ones(2), {"b": (1, 2)}]]}, {"size": numbers.shape}],
        "epoch": 3,
        "half": lib.float16,
    }  # fmt: skip


def blank(value: Any) -> Any:
    """The same structure, without its content."""
    if isinstance(value, dict):
        return {key: blank(each) for key, each in value.items()}
    if isinstance(value, list):
        return [*map(blank, value)]
    return value.clone().zero_() if hasattr(value, "zero_") else None


def lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: lists(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [*map(lists, value)]
    if hasattr(value, "is_floating_point") and hasattr(value, "tolist"):
        is_small = "float8" in str(value.dtype)
        kind = str(value.dtype).partition(".")[2]
        return kind, (value.float() if is_small else value).tolist()
    return str(value).replace("torch.", "").replace("flambeau.", "")


@pytest.mark.parametrize("writer", ["PyTorch", "flambeau"])
@pytest.mark.parametrize("reader", ["PyTorch", "flambeau"])
def test_everything_comes_back(tmp_path, writer, reader):
    # PyTorch lets `numbers` be taken for a list with places of its own only if it holds a tensor.
    if writer == "PyTorch":
        theirs.save(state_of(torch), storage_writer=theirs.FileSystemWriter(tmp_path))
    else:
        ours.save(state_of(flambeau), storage_writer=ours.FileSystemWriter(tmp_path))
    if reader == "PyTorch":
        found = blank(state_of(torch))
        found["numbers"] = [None] * 7
        theirs.load(found, storage_reader=theirs.FileSystemReader(tmp_path))
    else:
        found = blank(state_of(flambeau))
        ours.load(found, storage_reader=ours.FileSystemReader(tmp_path))
    assert lists(found) == lists(state_of(torch))


def trained(lib: Any, steps: int) -> tuple[Any, Any]:
    nn = lib.nn
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    with lib.no_grad():
        for each in model.parameters():
            each.copy_(lib.arange(float(each.numel())).reshape(each.shape).sin())
    options = [{"params": model[1].parameters(), "lr": 0.1}, {"params": model[3].parameters()}]
    optimizer = lib.optim.AdamW(options, lr=0.01)
    go_on(lib, model, optimizer, steps)
    return model, optimizer


def go_on(lib: Any, model: Any, optimizer: Any, steps: int) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        model(lib.arange(15.0).reshape(5, 3).add(step).sin()).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("steps", [0, 3])
def test_training_goes_on_in_the_other_library(tmp_path, steps):
    model, optimizer = trained(torch, 3)
    state = dict(zip(("model", "optimizer"), their_state_dict(model, optimizer), strict=True))
    theirs.save(state, checkpoint_id=tmp_path / "theirs")
    own, its = trained(flambeau, steps)
    state = dict(zip(("model", "optimizer"), our_state_dict(own, its), strict=True))
    ours.load(state, checkpoint_id=tmp_path / "theirs")
    ours.state_dict.set_state_dict(
        own, its, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
    )
    go_on(torch, model, optimizer, 2)
    go_on(flambeau, own, its, 2)
    for one, other in zip(own.state_dict().values(), model.state_dict().values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    state = dict(zip(("model", "optimizer"), our_state_dict(own, its), strict=True))
    ours.save(state, storage_writer=ours.FileSystemWriter(tmp_path / "ours"))
    dcp_to_torch_save(tmp_path / "ours", tmp_path / "whole.pt")
    whole = torch.load(tmp_path / "whole.pt")
    assert lists(whole["model"]) == lists(dict(own.state_dict()))
    assert whole["optimizer"]["param_groups"][0]["lr"] == 0.1
