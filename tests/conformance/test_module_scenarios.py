"""The module system does in every scenario what PyTorch's does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn.modules import module as torch_module

import flambeau
from flambeau.nn import hooks as flambeau_hooks
from tests.conformance.module_scenarios import (
    attributes,
    calling,
    containers,
    conversion,
    failing_calls,
    gradient_edges,
    gradient_hooks,
    gradient_replacements,
    inheritance,
    lazy,
    loading,
    names,
    parameters,
    registration,
    state_dict,
    traversal,
)
from tests.conformance.scenario import Entry, observe

TOPICS = (
    attributes,
    calling,
    containers,
    conversion,
    failing_calls,
    gradient_edges,
    gradient_hooks,
    gradient_replacements,
    inheritance,
    lazy,
    loading,
    names,
    parameters,
    registration,
    state_dict,
    traversal,
)
ENTRIES = [
    pytest.param(entry, id=f"{topic.__name__.rpartition('.')[2]}-{entry.name}")
    for topic in TOPICS
    for entry in topic.scenario
]


@pytest.fixture(autouse=True)
def no_global_hooks() -> Iterator[None]:
    """Leave no hooks on all modules behind."""
    yield
    for owner in (torch_module, flambeau_hooks):
        for name, value in vars(owner).items():
            if name.startswith("_global_") and isinstance(value, dict):
                value.clear()
        owner._global_is_full_backward_hook = None


@pytest.mark.parametrize("entry", ENTRIES)
def test_flambeau_does_what_pytorch_does(entry: Entry) -> None:
    expected, observed = observe(entry.run, torch), observe(entry.run, flambeau)
    assert observed[:2] == expected[:2], observed.message
    for fact in entry.facts:
        assert fact in expected.message
        assert fact in observed.message


def test_scenario_names_are_unique_within_their_topic() -> None:
    for topic in TOPICS:
        names = [entry.name for entry in topic.scenario]
        assert len(names) == len(set(names)), topic.__name__


def test_module_takes_no_names_that_pytorch_leaves_to_subclasses() -> None:
    ours, theirs = set(dir(flambeau.nn.Module)), set(dir(torch.nn.Module))
    assert ours - theirs == {"materialize"}
