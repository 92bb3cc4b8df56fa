"""Gradients, hooks, modes, custom Functions and transformations do what PyTorch's do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.func
import torch.utils.checkpoint

import flambeau
import flambeau.func
import flambeau.overrides
import flambeau.utils.checkpoint
from tests.conformance.autograd_scenarios import (
    backward,
    batches,
    checkpointing,
    forward_ad,
    functional,
    functions,
    gradient_dtypes,
    graph,
    hooks,
    hostile,
    in_place,
    modes,
    modules,
    overrides,
    rearranging,
    saved_tensors,
    transforms,
)
from tests.conformance.scenario import Entry, compare

TOPICS = (
    backward, batches, checkpointing, forward_ad, functional, functions, gradient_dtypes, graph,
    hooks, hostile, in_place, modes, modules, overrides, rearranging, saved_tensors, transforms,
)  # fmt: skip
ENTRIES = [
    pytest.param(entry, id=f"{topic.__name__.rpartition('.')[2]}-{entry.name}")
    for topic in TOPICS
    for entry in topic.scenario
]


@pytest.fixture(autouse=True)
def recording() -> Iterator[None]:
    """Leave both libraries as they were."""
    yield
    for lib in (torch, flambeau):
        lib.set_grad_enabled(True)


# Warnings are left out: PyTorch warns of cycles and of gradients of non-leaves, which here are
# collected, and asked for with care.
@pytest.mark.parametrize("entry", ENTRIES)
def test_flambeau_does_what_pytorch_does(entry: Entry) -> None:
    compare(entry, torch, flambeau)


def test_scenario_names_are_unique_within_their_topic() -> None:
    for topic in TOPICS:
        names = [entry.name for entry in topic.scenario]
        assert len(names) == len(set(names)), topic.__name__
