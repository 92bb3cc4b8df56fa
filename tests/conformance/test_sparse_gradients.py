"""Embeddings with sparse gradients, and the optimizers that take these, against PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import flambeau

RANDOM = np.random.default_rng(0)
WEIGHT = RANDOM.standard_normal((6, 2)).astype(np.float32)
LOOKED_UP = np.array([[1, 3, 1], [4, 2, 3]])

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "SparseAdam": {"lr": 0.1},
    "SparseAdam betas": {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3},
    "SparseAdam maximize": {"lr": 0.1, "maximize": True},
    "SGD": {"lr": 0.1},
    "SGD maximize": {"lr": 0.1, "maximize": True},
    "SGD momentum": {"lr": 0.1, "momentum": 0.9},
}


def trained(lib: Any, name: str, is_compiled: bool = False) -> list[np.ndarray]:
    """The table after each of some steps, of which each looks up other rows."""
    table = lib.nn.Embedding(6, 2, sparse=True)
    with lib.no_grad():
        table.weight.copy_(lib.tensor(WEIGHT))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = getattr(lib.optim, name.split(maxsplit=1)[0])(
            table.parameters(), **OPTIMIZERS[name]
        )

    def step(rows: Any) -> Any:
        optimizer.zero_grad()
        loss = table(rows).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    run = flambeau.compile(step) if is_compiled else step
    tables = []
    for shift in range(3):
        run(lib.tensor((LOOKED_UP + shift) % 6))
        assert table.weight.grad.is_sparse
        tables.append(table.weight.detach().numpy().copy())
    return tables


@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_pytorchs(name: str, is_compiled: bool) -> None:
    expected, found = trained(torch, name), trained(flambeau, name, is_compiled)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


USES = {
    "once": lambda lib, table, rows: table(rows).square().sum(),
    "twice": lambda lib, table, rows: table(rows).square().sum() + table(rows.t()[:2]).sum(),
    "beside a dense use": lambda lib, table, rows: table(rows).sum() + table.weight.square().sum(),
    "with a dense use before": lambda lib, table, rows: (
        table.weight.square().sum() + table(rows).sum()
    ),
    "tied": lambda lib, table, rows: (table(rows) @ table.weight.t()).square().sum(),
    "functional": lambda lib, table, rows: (
        lib.nn.functional.embedding(rows, table.weight, sparse=True).square().sum()
    ),
    "through a copy": lambda lib, table, rows: (
        lib.nn.functional.embedding(rows, table.weight * 1, sparse=True).square().sum()
        if lib is flambeau
        else lib.nn.functional.embedding(rows, table.weight * 1).square().sum()
    ),
}


@pytest.mark.parametrize("padding_idx", [None, 1])
@pytest.mark.parametrize("name", USES)
def test_gradients_are_pytorchs(name: str, padding_idx: int | None) -> None:
    found = []
    for lib in (torch, flambeau):
        table = lib.nn.Embedding(6, 2, padding_idx=padding_idx, sparse=True)
        with lib.no_grad():
            table.weight.copy_(lib.tensor(WEIGHT))
        kinds = []
        for _ in range(2):
            USES[name](lib, table, lib.tensor(LOOKED_UP)).backward()
            kinds.append(table.weight.grad.is_sparse)
        found.append((kinds, table.weight.grad.to_dense().numpy()))
    assert found[1][0] == found[0][0]
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-5, atol=1e-6)


BAD = {
    "lr": lambda lib, p: lib.optim.SparseAdam([p], lr=0.0),
    "eps": lambda lib, p: lib.optim.SparseAdam([p], eps=0.0),
    "betas": lambda lib, p: lib.optim.SparseAdam([p], betas=(1.0, 0.9)),
    "sparse parameter": lambda lib, p: lib.optim.SparseAdam([p.detach().to_sparse()]),
    "dense gradient": lambda lib, p: stepped(lib.optim.SparseAdam([p]), p.square().sum()),
    "Adam": lambda lib, p: stepped(lib.optim.Adam([p]), looked_up(lib, p)),
    "AdamW": lambda lib, p: stepped(lib.optim.AdamW([p]), looked_up(lib, p)),
}


def stepped(optimizer: Any, loss: Any) -> None:
    loss.backward()
    optimizer.step()


def looked_up(lib: Any, weight: Any) -> Any:
    return lib.nn.functional.embedding(lib.tensor(LOOKED_UP), weight, sparse=True).sum()


@pytest.mark.parametrize("name", BAD)
def test_bad_calls_raise_pytorchs_errors(name: str) -> None:
    raised = []
    for lib in (torch, flambeau):
        weight = lib.tensor(WEIGHT).requires_grad_()
        with pytest.raises(Exception) as found:  # noqa: PT011
            BAD[name](lib, weight)
        raised.append(found.type)
        np.testing.assert_array_equal(weight.detach().numpy(), WEIGHT)
    assert issubclass(raised[1], raised[0])


def test_states_have_pytorchs_names() -> None:
    states = []
    for lib in (torch, flambeau):
        weight = lib.tensor(WEIGHT).requires_grad_()
        optimizer = lib.optim.SparseAdam([weight])
        stepped(optimizer, looked_up(lib, weight))
        states.append(optimizer.state_dict())
    theirs, ours = states
    assert list(ours["state"][0]) == list(theirs["state"][0])
    assert set(ours["param_groups"][0]) == set(theirs["param_groups"][0])
    for name, value in theirs["state"][0].items():
        np.testing.assert_allclose(ours["state"][0][name].numpy(), np.asarray(value), rtol=1e-5)
    weight = flambeau.tensor(WEIGHT).requires_grad_()
    resumed = flambeau.optim.SparseAdam([weight])
    resumed.load_state_dict(theirs)
    stepped(resumed, looked_up(flambeau, weight))
    assert resumed.state_dict()["state"][0]["step"].item() == 2
