"""A few resumed sessions at every run of the tests, and the search itself on planted defects."""

from __future__ import annotations

from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from flambeau import optim
from flambeau.distributed.checkpoint import state_dict_loader
from tests.fuzz import resuming
from tests.fuzz.slices import SLICE_OF_A_SEARCH

pytestmark = pytest.mark.filterwarnings("ignore:the scheduler's step:UserWarning")


@SLICE_OF_A_SEARCH
def test_resumed_sessions_go_on() -> None:
    report = resuming.run(None, 1001, 8)
    assert not report.disagreements, str(report)
    assert report.counts["sessions"] == 8


def _choices(recipe: str, **others: Any) -> dict[str, Any]:
    plain = {
        "recipe": recipe, "optimizer": "AdamW", "scheduler": "none", "scaler": False,
        "average": False, "tied": False, "tensor": False, "named": False, "groups": False,
        "frozen": 0, "before": 2, "used": 0,
    }  # fmt: skip
    return plain | others


@pytest.mark.parametrize("recipe", resuming.RECIPES)
def test_every_recipe_resumes(recipe: str) -> None:
    for used in (0, 1):
        choices = _choices(recipe, scheduler="sequence", average=True, used=used)
        assert not resuming.judged(choices, Random(1))


def test_a_lost_state_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    load = optim.Optimizer.load_state_dict

    def without_state(self: Any, state_dict: Any) -> None:
        load(self, {**state_dict, "state": {}})

    monkeypatch.setattr(optim.Optimizer, "load_state_dict", without_state)
    assert resuming.judged(_choices("InMemory"), Random(1)).startswith("entry")


def test_state_without_a_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_dict_loader, "open_optimizers", lambda *_: ExitStack())
    found = resuming.judged(_choices("InParts"), Random(1))
    assert "Unexpected key in checkpoint state_dict: optimizer.state.0.step" in found
