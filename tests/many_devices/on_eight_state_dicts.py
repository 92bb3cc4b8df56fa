"""State dicts by name of a model and an optimizer that are divided over eight devices."""

import copy

import flambeau
from flambeau import nn, optim
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.fsdp import fully_shard


def trainer(rate):
    model = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 16))
    fully_shard(model, mesh=init_device_mesh("cpu", (8,)))
    optimizer = optim.Adam(model.parameters(), lr=rate)

    def train():
        optimizer.zero_grad()
        model(flambeau.ones(8, 16)).square().sum().backward()
        optimizer.step()

    return model, optimizer, train


def devices(tensor):
    return len(tensor.jax().devices())


def test_whole_state_dicts_are_divided_again():
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    model, optimizer, train = trainer(0.1)
    train()
    own, state = copy.deepcopy(get_state_dict(model, optimizer, options=options))
    assert {devices(each) for each in own.values()} == {1}
    assert {devices(each) for each in state["state"]["1.weight"].values()} == {1}
    train()

    other, theirs, train_other = trainer(0.3)
    set_state_dict(other, theirs, model_state_dict=own, optim_state_dict=state, options=options)
    assert devices(other[0].weight) == devices(theirs.state[other[0].weight]["exp_avg"]) == 8
    train_other()
    for one, another in zip(model.parameters(), other.parameters(), strict=True):
        assert flambeau.allclose(one, another)
