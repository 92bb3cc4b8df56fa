"""Training over two processes of four devices each gives the numbers of one device."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))

import each_of_two
import numpy as np

import flambeau
from flambeau import distributed, nn, optim
from flambeau.core.support.statistics import statistics
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.tensor import Replicate, Shard
from flambeau.nn import functional as F
from flambeau.nn.parallel import DistributedDataParallel
from tests.many_devices.models import MODELS

STEPS, BATCH = 10, 16


def all_devices():
    return init_device_mesh("cpu", (8,), mesh_dim_names=("data",))


def data_parallel(model):
    return DistributedDataParallel(model, device_mesh=all_devices())


def fully_sharded(model):
    for each in getattr(model, "blocks", model.children()):
        fully_shard(each, mesh=all_devices())
    return fully_shard(model, mesh=all_devices())


def rows_of_weights_by_pairs(model):
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
    rules = {"up.weight": ("model", None), "down.weight": (None, "model")}
    return flambeau.shard(model, mesh, rules)


def an_expert_for_each_device(model):
    return flambeau.shard(model, all_devices(), {"up": ("data",), "down": ("data",)})


def whole_batches(name):
    """A batch for each step, each with other rows first."""
    x, y = MODELS[name][1](), np.arange(BATCH) % 8
    return [(np.roll(x, step, 0), np.roll(y, step)) for step in range(STEPS)]


def on_one_device(name):
    return [tuple(map(flambeau.from_numpy, pair)) for pair in whole_batches(name)]


def on_all(name, mesh=None):
    """The batches that both processes bring together, each its half of the rows."""
    first = distributed.get_rank() * BATCH // 2
    mine = [
        tuple(flambeau.from_numpy(each[first : first + BATCH // 2]) for each in pair)
        for pair in whole_batches(name)
    ]
    return distributed.global_batches(mine, mesh)


def programs_of_steps():
    """How many programs of compiled steps were made, or found on the disk."""
    counts = (statistics.compiled, statistics.loaded)
    return sum(each.get("compiled_step", (0, 0))[0] for each in counts)


def train(name, place, batches, compiled):
    flambeau.manual_seed(3)
    model = place(MODELS[name][0]())
    optimizer = optim.AdamW(model.parameters(), lr=0.01)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    run = flambeau.compile(step) if compiled else step
    before = programs_of_steps()
    losses = [run(x, y).item() for x, y in batches]
    count = programs_of_steps() - before
    found = [each.detach() for each in (*model.parameters(), *model.buffers())]
    whole = [each.full_tensor() if hasattr(each, "full_tensor") else each for each in found]
    return losses, [each.numpy() for each in whole], count, model


def check(name, place, compiled=True, batches=on_all):
    expected = train(name, lambda model: model, on_one_device(name), compiled)
    found = train(name, place, batches(name), compiled)
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-4)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4)
    assert found[2] == expected[2] == int(compiled)
    return found[3]


def the_data_parallel_perceptron(rank):
    model = check("perceptron", data_parallel)
    assert model.module.up.weight.placements == (Replicate(),)


def the_data_parallel_perceptron_eagerly(rank):
    check("perceptron", data_parallel, compiled=False)


def the_tensor_parallel_perceptron(rank):
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
    check("perceptron", rows_of_weights_by_pairs, batches=lambda name: on_all(name, mesh["data"]))


def the_data_parallel_convolutional_network(rank):
    check("convolutional", data_parallel)


def the_fully_sharded_convolutional_network(rank):
    check("convolutional", fully_sharded)


def the_fully_sharded_transformer_with_dropout(rank):
    model = check("transformer", fully_sharded)
    up = model.blocks[0].up.weight
    assert up.placements == (Shard(0),)
    assert [each.data.shape for each in up.jax().addressable_shards] == [(4, 16)] * 4


def the_data_parallel_lstm(rank):
    check("recurrent", data_parallel)


def experts_on_devices_of_their_own(rank):
    model = check("experts", an_expert_for_each_device, batches=on_one_device)
    assert model.up.to_local().shape == (1, 8, 16)


def arrays_that_are_held_are_not_overwritten(rank):
    model = fully_sharded(MODELS["perceptron"][0]())
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    held = model.up.weight.jax()
    before = held.addressable_data(0).tolist()
    for pair in on_all("perceptron"):
        F.cross_entropy(model(pair[0]), pair[1]).backward()
        optimizer.step()
    assert held.addressable_data(0).tolist() == before
    assert model.up.weight.jax().addressable_data(0).tolist() != before


if __name__ == "__main__":
    each_of_two.run(
        [
            the_data_parallel_perceptron,
            the_data_parallel_perceptron_eagerly,
            the_tensor_parallel_perceptron,
            the_data_parallel_convolutional_network,
            the_fully_sharded_convolutional_network,
            the_fully_sharded_transformer_with_dropout,
            the_data_parallel_lstm,
            experts_on_devices_of_their_own,
            arrays_that_are_held_are_not_overwritten,
        ]
    )
