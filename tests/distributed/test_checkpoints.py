"""Checkpoints in parts, on one device: what is loaded, and what a folder is left with."""

import os
import signal
import subprocess
import sys

import pytest

import flambeau
from flambeau import nn
from flambeau.checkpoint import CheckpointError
from flambeau.checkpoint.parts import INDEX
from flambeau.distributed import checkpoint
from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

FOREVER = """
import sys, flambeau
from flambeau.distributed import checkpoint
state = {"w": flambeau.ones(3), "log": ["x" * 1000] * 20_000}
while True:
    checkpoint.save(state, checkpoint_id=sys.argv[1])
"""


def trained(make=lambda model: flambeau.optim.AdamW(model.parameters(), lr=0.1), steps=2):
    flambeau.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    optimizer = make(model)
    for _ in range(steps):
        model(flambeau.ones(2, 3)).sum().backward()
        optimizer.step()
    return model, optimizer


def by_name(model, optimizer) -> dict:
    own, state = get_state_dict(model, optimizer)
    return {"model": own, "optim": state}


def test_a_new_optimizer_gets_its_state_by_pytorchs_recipe(tmp_path):
    model, optimizer = trained()
    checkpoint.save(by_name(model, optimizer), checkpoint_id=tmp_path)
    other, later = trained(steps=0)
    state = by_name(other, later)
    assert not later.state  # Asking for places makes no state.
    checkpoint.load(state, checkpoint_id=tmp_path)
    set_state_dict(other, later, model_state_dict=state["model"], optim_state_dict=state["optim"])
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert later.state[two]["step"] == 2
        assert flambeau.equal(later.state[two]["exp_avg"], optimizer.state[one]["exp_avg"])


def test_a_state_dict_with_numbers_has_places_too(tmp_path):
    _, optimizer = trained()
    checkpoint.save({"deep": {"optim": optimizer.state_dict()}}, checkpoint_id=tmp_path)
    _, later = trained(steps=0)
    state = {"deep": {"optim": later.state_dict()}}
    checkpoint.load(state, checkpoint_id=tmp_path)
    later.load_state_dict(state["deep"]["optim"])
    assert [each["step"].item() for each in later.state.values()] == [2] * 4


def test_a_state_that_the_checkpoint_lacks_is_no_longer_there(tmp_path):
    _, optimizer = trained(steps=0)
    checkpoint.save({"optim": optimizer}, checkpoint_id=tmp_path)
    _, used = trained()
    checkpoint.load({"optim": used}, checkpoint_id=tmp_path)
    assert not used.state


class TestEntriesWithoutAPlace:
    def test_those_of_a_dictionary_are_named(self, tmp_path):
        checkpoint.save({"m": {"a": flambeau.ones(1), "b": {"c": 3}}}, checkpoint_id=tmp_path)
        state = {"m": {"a": flambeau.zeros(1)}}
        with pytest.raises(CheckpointError, match=r"Unexpected key in .*state_dict: m\.b\.c"):
            checkpoint.load(state, checkpoint_id=tmp_path)
        assert state["m"]["a"] == 0
        part = {"m.a": flambeau.zeros(1)}  # Of the first level, each key is a choice.
        checkpoint.load(part, checkpoint_id=tmp_path)
        assert part["m.a"] == 1

    def test_those_of_another_parameter_are_named(self, tmp_path):
        _, optimizer = trained()
        checkpoint.save({"optim": optimizer}, checkpoint_id=tmp_path)
        model, _ = trained()
        fewer = flambeau.optim.AdamW(model[0].parameters())
        state = {"model": model.state_dict(), "optim": fewer.state_dict()}
        with pytest.raises(
            CheckpointError, match=r"it has 'optim\.state\.2\.\w+', a state of none"
        ):
            checkpoint.load({"optim": state["optim"]}, checkpoint_id=tmp_path)
        assert state["optim"] == fewer.state_dict()

    def test_another_optimizers_state_is_refused(self, tmp_path):
        _, optimizer = trained(lambda model: flambeau.optim.SGD(model.parameters(), momentum=0.9))
        checkpoint.save({"optim": optimizer}, checkpoint_id=tmp_path)
        for steps in (0, 1):
            _, adam = trained(steps=steps)
            with pytest.raises((CheckpointError, ValueError), match=r"step|exp_avg"):
                checkpoint.load({"optim": adam}, checkpoint_id=tmp_path)


def test_a_refused_checkpoint_leaves_the_state_dict_as_it_was(tmp_path):
    model, optimizer = trained()
    checkpoint.save(by_name(model, optimizer) | {"w": flambeau.ones(1)}, checkpoint_id=tmp_path)
    state = by_name(*trained(steps=0)) | {"w": flambeau.ones(2)}
    before = {*state["optim"]["state"]}
    with pytest.raises(CheckpointError, match="Size mismatch"):
        checkpoint.load(state, checkpoint_id=tmp_path)
    assert {*state["optim"]["state"]} == before
    assert all(each["step"] == 0 for each in state["optim"]["state"].values())


def test_tied_weights_stay_tied_in_a_single_file(tmp_path):
    weight = nn.Parameter(flambeau.ones(1000))
    checkpoint.save({"a": weight, "b": weight}, checkpoint_id=tmp_path / "run")
    for source in (tmp_path / "run", tmp_path / "run.pt"):
        checkpoint.format_utils.dcp_to_torch_save(source, tmp_path / "run.pt")
        found = flambeau.load(tmp_path / "run.pt")
        assert found["a"] is found["b"]
        assert (tmp_path / "run.pt").stat().st_size < 6000


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks that end with a process")
def test_the_next_save_removes_what_killed_ones_have_left(tmp_path):
    command = [sys.executable, "-c", FOREVER, str(tmp_path)]
    with subprocess.Popen(command) as process:
        while not any(each.startswith(".values-") for each in os.listdir(tmp_path)):
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    token = "0" * 16
    for name in (f".values-{token}.pt", f"..{token}-00001.done", f".{INDEX}"):
        (tmp_path / f"{name}.{token}.tmp").touch()
    checkpoint.save({"w": flambeau.ones(3)}, checkpoint_id=tmp_path)
    assert sorted(each.suffix for each in tmp_path.iterdir()) == [".json", ".safetensors"]


def test_a_state_that_starts_from_the_rate_is_left_to_the_first_step():
    for make in (flambeau.optim.ASGD, flambeau.optim.Rprop):
        model, optimizer = trained(lambda model, make=make: make(model.parameters()), steps=0)
        assert not get_state_dict(model, optimizer)[1]["state"]
