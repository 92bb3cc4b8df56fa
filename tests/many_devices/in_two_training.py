"""Training over two processes of four devices each gives the numbers of one device."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))

import each_of_two
import numpy as np

import flambeau
from flambeau import distributed, nn, optim
from flambeau.distributed.device_mesh import init_device_mesh
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.tensor import Replicate, Shard
from flambeau.nn import functional as F
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS, BATCH = 10, 16


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Normalized(nn.Module):
    """A convolution, a batch normalization over the whole batch, and dropout."""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv1d(1, 4, 3, padding=1, bias=False), nn.BatchNorm1d(4)
        self.head = nn.Linear(32, 8)

    def forward(self, x):
        found = F.relu(self.norm(self.convolution(x.unsqueeze(1))))
        return self.head(F.dropout(found.flatten(1), 0.1, self.training))


def numbers(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def data():
    x = numbers(STEPS * BATCH, 8)
    return flambeau.from_numpy(x), flambeau.from_numpy(np.roll(x, 1, 1))


def train(make, place, batches, compiled):
    flambeau.manual_seed(3)
    model = place(make())
    optimizer = optim.AdamW(model.parameters(), lr=0.01)

    def step(x, y):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    run = flambeau.compile(step) if compiled else step
    losses = [run(x, y).item() for x, y in batches]
    found = [each.detach() for each in (*model.parameters(), *model.buffers())]
    whole = [each.full_tensor() if hasattr(each, "full_tensor") else each for each in found]
    return losses, [each.numpy() for each in whole], model


def data_parallel(model):
    return DistributedDataParallel(model, device_mesh=init_device_mesh("cpu", (8,)))


def fully_sharded(model):
    mesh = init_device_mesh("cpu", (8,), mesh_dim_names=("data",))
    for each in [*model.children()]:
        fully_shard(each, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def by_rules(model):
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
    return flambeau.shard(
        model, mesh, {"up.weight": ("model", None), "down.weight": (None, "model")}
    )


def check(make, place, compiled, mesh=None):
    inputs, targets = data()
    # Each process takes every other row, and the rows of process 0 come first.
    order = [*range(0, BATCH, 2), *range(1, BATCH, 2)]
    pairs = zip(inputs.split(BATCH), targets.split(BATCH), strict=True)
    whole = [(x[order], y[order]) for x, y in pairs]
    expected = train(make, lambda model: model, whole, compiled)
    dataset = TensorDataset(inputs, targets)
    sampler = DistributedSampler(dataset, shuffle=False)
    loader = DataLoader(dataset, batch_size=BATCH // 2, sampler=sampler)
    found = train(make, place, distributed.global_batches(loader, mesh), compiled)
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-4)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4)
    return found[2]


def the_data_parallel_perceptron(rank):
    model = check(Perceptron, data_parallel, True)
    assert model.module.up.weight.placements == (Replicate(),)


def the_data_parallel_perceptron_eagerly(rank):
    check(Perceptron, data_parallel, False)


def the_data_parallel_network_with_batch_normalization_and_dropout(rank):
    check(Normalized, data_parallel, True)


def the_fully_sharded_network_with_batch_normalization_and_dropout(rank):
    check(Normalized, fully_sharded, True)


def the_fully_sharded_perceptron(rank):
    model = check(Perceptron, fully_sharded, True)
    assert model.up.weight.placements == (Shard(0),)
    assert [each.data.shape for each in model.up.weight.jax().addressable_shards] == [(2, 8)] * 4


def the_tensor_parallel_perceptron(rank):
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
    check(Perceptron, by_rules, True, mesh["data"])


if __name__ == "__main__":
    each_of_two.run(
        [
            the_data_parallel_perceptron,
            the_data_parallel_perceptron_eagerly,
            the_data_parallel_network_with_batch_normalization_and_dropout,
            the_fully_sharded_network_with_batch_normalization_and_dropout,
            the_fully_sharded_perceptron,
            the_tensor_parallel_perceptron,
        ]
    )
