"""Two processes that train on batches of their own, eagerly and by compiled functions."""

import copy
import os
import pickle
import sys
import warnings

sys.path.insert(0, os.path.dirname(__file__))

import each_of_two
import numpy as np
import pytest

import flambeau
from flambeau import distributed, nn, optim
from flambeau.core.support.statistics import statistics
from flambeau.distributed import ReduceOp
from flambeau.distributed.algorithms.join import Join, Joinable
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.nn import functional as exchanges
from flambeau.nn import functional as F
from flambeau.nn.parallel import DistributedDataParallel
from tests.many_devices.models import MODELS

STEPS, ROWS = 6, 8


class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(8, 16, bias=False), nn.Linear(16, 8)
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x):
        return self.last(F.gelu(self.norm(self.first(x))))


def by_parts(net):
    return DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(net))


def whole_batches(name):
    make = MODELS[name][1] if name in MODELS else MODELS["perceptron"][1]
    x, y = make(), np.arange(2 * ROWS) % 8
    batches = [(np.roll(x, step, 0), np.roll(y, step)) for step in range(STEPS)]
    return [tuple(map(flambeau.from_numpy, pair)) for pair in batches]


def part(pair, rank):
    return [each[rank * ROWS :][:ROWS] for each in pair]


def train(name, wrap, batches, kind="eager"):
    """The parameters and buffers after some steps, and how many programs were made."""
    flambeau.manual_seed(3)
    net = Normalized() if name == "normalized" else MODELS[name][0]()
    net = wrap(net)
    optimizer = optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    run = flambeau.compile(net, fullgraph=True) if kind == "compiled module" else net

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(run(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    take = flambeau.compile(step, fullgraph=True) if kind == "compiled step" else step
    for pair in batches:
        take(*pair)
    if take is not step:
        assert take.program_count == 1
    found = [*net.parameters(), *net.buffers()]
    return [each.numpy(force=True) for each in found]


def check(rank, name, kind):
    batches = whole_batches(name)
    expected = train(name, lambda net: net, batches)
    found = train(name, by_parts, [part(pair, rank) for pair in batches], kind)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def whole_batches_are_trained_eagerly(rank):
    for name in ("perceptron", "recurrent", "normalized"):
        check(rank, name, "eager")


def whole_batches_are_trained_by_one_program(rank):
    for name in ("perceptron", "recurrent", "normalized"):
        check(rank, name, "compiled step")


def a_compiled_module_averages_gradients_outside(rank):
    for name in ("perceptron", "normalized"):
        check(rank, name, "compiled module")


def a_program_of_both_processes_donates_and_is_found_again(rank):
    net = DistributedDataParallel(nn.Linear(64, 64))
    optimizer = optim.AdamW(net.parameters(), lr=0.01)

    @flambeau.compile(fullgraph=True)
    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = flambeau.full((3, 64), rank + 1.0)
    step(x)
    before, count = net.module.weight.data_ptr(), statistics.compiled.get("compiled_step")
    for _ in range(3):
        step(x)
    assert net.module.weight.data_ptr() == before
    assert statistics.compiled.get("compiled_step") == count
    weights = [None, None]
    distributed.all_gather_object(weights, net.module.weight.tolist())
    assert weights[0] == weights[1]


def a_mode_without_averages_is_another_program(rank):
    net = DistributedDataParallel(nn.Linear(2, 1, bias=False))
    nn.init.ones_(net.module.weight)

    @flambeau.compile(fullgraph=True)
    def gradient(x):
        net.zero_grad()
        net(x).sum().backward()
        return net.module.weight.grad.clone()

    x = flambeau.full((1, 2), float(rank))
    # At the first call there is no gradient to drop.
    gradient(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            assert gradient(x).tolist() == [[0.5, 0.5]]
            with net.no_sync():
                assert gradient(x).tolist() == [[rank, rank]]
    assert gradient.program_count == 3


def gradients_flow_through_collectives(rank):
    weight = flambeau.tensor(rank + 1.0)

    def loss_of(x):
        total = exchanges.all_reduce(x * x)
        stacked = flambeau.stack(exchanges.all_gather(x))
        mean = exchanges.all_reduce(x, ReduceOp.AVG)
        return (weight * (total.sum() + mean.sum()) + (stacked * stacked).sum()) / 2

    def gradient(x):
        x = x.detach().requires_grad_()
        (found,) = flambeau.autograd.grad(loss_of(x), x)
        return found

    x = flambeau.tensor([1.0, 2.0]) * (rank + 1)
    # Of the sum of both losses, (1 + 2) / 2 times what was added up, and of two stacked tensors.
    expected = 3 * x + 0.75 + 2 * x
    for run in (gradient, flambeau.compile(gradient, fullgraph=True)):
        assert flambeau.allclose(run(x), expected)
    with pytest.raises(NotImplementedError, match="SUM and AVG, not"):
        exchanges.all_reduce(x, ReduceOp.MAX)


def running_statistics_are_those_of_the_whole_batch(rank):
    x = flambeau.arange(48.0).reshape(8, 3, 2).sin()
    alone, shared = nn.BatchNorm1d(3, momentum=None), nn.SyncBatchNorm(3, momentum=None)
    for step in range(2):
        alone(x + step)
        shared((x + step)[:3] if rank else (x + step)[3:])
    assert flambeau.allclose(shared.running_mean, alone.running_mean, atol=1e-6)
    assert flambeau.allclose(shared.running_var, alone.running_var, atol=1e-6)
    assert flambeau.allclose(shared.eval()(x), alone.eval()(x), atol=1e-5)


def one_process_is_a_group(rank):
    groups = [distributed.new_group([each]) for each in range(2)]
    net = DistributedDataParallel(nn.Linear(2, 1), process_group=groups[rank])
    net(flambeau.full((1, 2), float(rank))).sum().backward()
    assert net.module.weight.grad.tolist() == [[rank, rank]]
    with pytest.raises(ValueError, match="not in process_group"):
        DistributedDataParallel(nn.Linear(2, 1), process_group=groups[1 - rank])
    with pytest.raises(RuntimeError, match="only supported when using DDP with the default"):
        pickle.dumps(net)

    @flambeau.compile
    def step(x):
        net.zero_grad()
        net(x).sum().backward()
        return net.module.weight.grad.clone()

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert step(flambeau.ones(1, 2)).tolist() == [[1, 1]]
    assert "has only some of the processes" in str(said[0].message)


def copies_average_too(rank):
    net = DistributedDataParallel(nn.Linear(2, 1, bias=False))
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        other(flambeau.full((1, 2), float(rank))).sum().backward()
        assert other.module.weight.grad.tolist() == [[0.5, 0.5]]
        assert net.module.weight.grad is None
    copied = copy.deepcopy(net.module)
    copied(flambeau.full((1, 2), float(rank))).sum().backward()
    assert copied.weight.grad.tolist() == [[rank, rank]]


def what_cannot_be_averaged_is_refused(rank):
    net = DistributedDataParallel(nn.Embedding(3, 2, sparse=True))
    with pytest.raises(NotImplementedError, match="that of weight is sparse"):
        net(flambeau.tensor([0, 1])).sum().backward()
    net = DistributedDataParallel(nn.Linear(2, 1))
    with pytest.raises(TypeError, match="must be callable"):
        net.register_comm_hook(None, 3)
    net.register_comm_hook(None, lambda state, bucket: None)
    with pytest.raises(RuntimeError, match="can only be called once"):
        net.register_comm_hook(None, lambda state, bucket: None)
    with pytest.raises(ValueError, match="requires at least one joinable"):
        Join([])
    with pytest.raises(TypeError, match="must be Joinable objects, got int"):
        Join([3])
    with pytest.raises(NotImplementedError, match="Joinable defines no join_hook"):
        Joinable().join_hook()


def unequal_rows_are_refused_by_shared_parameters(rank):
    net = fully_shard(nn.Linear(8, 8))
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"process 0 has \[\[4, 8\]\]; process 1 has \[\[3, 8\]\]"
        ):
            net(flambeau.ones(4 - rank, 8))
        assert net(flambeau.ones(4, 8)).shape == (4, 8)


def values_that_decide_leave_one_program(rank):
    """Each process could take another branch."""
    net = DistributedDataParallel(nn.Linear(2, 1, bias=False))
    nn.init.ones_(net.module.weight)

    @flambeau.compile
    def step(x):
        net.zero_grad()
        loss = net(x).sum()
        if loss > 100:
            loss = loss * 2
        loss.backward()
        return net.module.weight.grad.clone()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(6):
            assert step(flambeau.full((1, 2), float(rank))).tolist() == [[0.5, 0.5]]
    assert step.program_count == 0


CHECKS = [
    whole_batches_are_trained_eagerly,
    whole_batches_are_trained_by_one_program,
    a_compiled_module_averages_gradients_outside,
    a_program_of_both_processes_donates_and_is_found_again,
    a_mode_without_averages_is_another_program,
    gradients_flow_through_collectives,
    running_statistics_are_those_of_the_whole_batch,
    one_process_is_a_group,
    copies_average_too,
    what_cannot_be_averaged_is_refused,
    unequal_rows_are_refused_by_shared_parameters,
    values_that_decide_leave_one_program,
]

if __name__ == "__main__":
    each_of_two.run(CHECKS)
