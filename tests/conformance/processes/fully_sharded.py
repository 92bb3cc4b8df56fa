"""A PyTorch program of two processes that share parameters: ``python fully_sharded.py FOLDER``.

Each process writes what it has found, by name, to ``FOLDER/RANK.json``.
"""

from collections import OrderedDict

import torch
import torch.distributed as dist
from _shared import RANK, network, run, whole
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

ROWS = 4


def sharded():
    net, mesh = network(), init_device_mesh("cpu", (2,))
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return net


def batch(step):
    x = (torch.arange(640.0) * 0.7).sin().reshape(10, 2 * ROWS, 8)
    y = torch.arange(80).reshape(10, 2 * ROWS) % 4
    return x[step, RANK * ROWS :][:ROWS], y[step, RANK * ROWS :][:ROWS]


def loss_of(net, step):
    x, y = batch(step)
    return nn.functional.cross_entropy(net(x), y)


def training():
    net, found = sharded(), []
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
    for step in range(5):
        optimizer.zero_grad()
        loss = loss_of(net, step)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        found.append([loss.item(), *whole([norm])[0]])
    return found, whole(net.parameters())


def accumulated_gradients():
    net = sharded()
    for step in range(3):
        net.set_requires_gradient_sync(step == 2)
        loss_of(net, step).backward()
    return whole([each.grad for each in net.parameters()])


def results_in_a_dictionary():
    net = sharded()
    x, y = batch(0)
    found = net(x, y=y)
    (found["loss"] + found["logits"].square().mean()).backward()
    # With flambeau each process has the loss of all rows.
    mean = found["loss"].detach().clone() / 2
    dist.all_reduce(mean)
    shapes = {name: [*each.shape] for name, each in found.items()}
    values = whole([mean, found["logits"]])
    return shapes, values, whole([each.grad for each in net.parameters()])


def without_gradient():
    net = sharded().eval()
    with torch.no_grad():
        return whole([net(batch(0)[0])])


def divided_layers():
    net, mesh = network(), init_device_mesh("cpu", (2,))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    for block in net.blocks:
        parallelize_module(block, mesh, plan)
    optimizer, found = torch.optim.SGD(net.parameters(), lr=0.1), []
    x, y = (torch.arange(32.0) * 0.7).sin().reshape(4, 8), torch.arange(4)
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found, whole(net.parameters())


def layers_around_a_sharded_one():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    fully_shard(net[1])
    x = batch(0)[0].requires_grad_()
    net(x).square().mean().backward()
    return whole([x.grad, *(each.grad for each in net.parameters())])


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        nn.init.ones_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def forward(self, x, factors):
        return OrderedDict(found=self.layer(x) * factors.sum())


class Scaling(nn.Module):
    """Makes an argument of its layers itself, as positions and masks are made."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Scaled(), Scaled()])
        for each in self.layers:
            fully_shard(each)

    def forward(self, x):
        for each in self.layers:
            x = each(x, torch.arange(3.0))["found"]
        return x


def arguments_that_are_no_rows():
    x, net, root = batch(0)[0], Scaled(), Scaling()
    fully_shard(net)
    fully_shard(root)
    found = [net(x, torch.arange(3.0)), net(x, torch.tensor(0.5)), {"found": root(x)}]
    return whole([each["found"] for each in found]), [type(each).__name__ for each in found]


def state_of_the_first_process():
    net = sharded()
    options = StateDictOptions(full_state_dict=True)
    state = get_model_state_dict(net, options=options)
    state = {name: each * 2 for name, each in state.items()} if RANK == 0 else {}
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(net, state, options=options)
    return whole(net.parameters())


CASES = [
    layers_around_a_sharded_one,
    arguments_that_are_no_rows,
    state_of_the_first_process,
    training,
    accumulated_gradients,
    results_in_a_dictionary,
    without_gradient,
    divided_layers,
]

if __name__ == "__main__":
    run(CASES)
