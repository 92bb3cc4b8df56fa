"""A PyTorch program of four processes in grids: ``python grids.py FOLDER``.

Each process writes what it has found, by name, to ``FOLDER/RANK.json``.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from _shared import RANK, network, run, whole
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

ROWS = 2


def rows(step, place):
    """The rows of a batch that are at a place among those of all processes."""
    x = (torch.arange(192.0) * 0.7).sin().reshape(3, 4 * ROWS, 8)
    y = torch.arange(24).reshape(3, 4 * ROWS) % 4
    return x[step, place * ROWS :][:ROWS], y[step, place * ROWS :][:ROWS]


def trained(net, place):
    """Losses of some steps, and the elements of the parameters after them."""
    optimizer, found = torch.optim.AdamW(net.parameters(), lr=0.05), []
    for step in range(3):
        optimizer.zero_grad()
        x, y = rows(step, place)
        loss = nn.functional.cross_entropy(net(x).float(), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found, whole(net.parameters())


def groups_of_a_grid():
    mesh, found = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")), []
    for name in ("dp", "tp"):
        group = mesh.get_group(name)
        total = torch.tensor([float(RANK)])
        dist.all_reduce(total, group=group)
        ranks = dist.get_process_group_ranks(group)
        found.append([ranks, total.item(), mesh.get_local_rank(name), mesh[name].size()])
    alone = mesh["tp"]
    found.append([dist.get_process_group_ranks(alone.get_group()), alone.get_coordinate()])
    found.append([dist.get_process_group_ranks(each) for each in mesh.get_all_groups()])
    return [str(each) for each in found], mesh.mesh.tolist(), mesh["dp"].mesh.tolist()


def dimensions_as_one():
    mesh = init_device_mesh("cpu", (1, 2, 2), mesh_dim_names=("pp", "dp", "cp"))
    one = mesh["dp", "cp"]._flatten("dp_cp")
    total = torch.tensor([1.0 + RANK])
    dist.all_reduce(total, group=one.get_group())
    again = mesh["dp_cp"]
    facts = [one.size(), one.ndim, *one.mesh_dim_names, again.get_local_rank(), total.item()]
    net = network()
    for block in net.blocks:
        fully_shard(block, mesh=again)
    fully_shard(net, mesh=again)
    return [str(each) for each in facts], one.mesh.tolist(), trained(net, RANK)


def meshes_of_groups():
    mesh = DeviceMesh.from_group(dist.group.WORLD, "cpu")
    return str([mesh.size(), mesh.get_local_rank(), mesh.mesh.tolist()])


def the_same_parameters_everywhere():
    return trained(DistributedDataParallel(network()), RANK)


def copies_of_shards():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    net = network()
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return trained(net, RANK)


def shards_of_divided_layers():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    net = network()
    for block in net.blocks:
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(net, mesh=mesh["dp"])
    return trained(net, mesh["dp"].get_local_rank())


def a_divided_sequence():
    mesh, net = init_device_mesh("cpu", (4,)), network()
    plan = {
        "norm": SequenceParallel(),
        "up": ColwiseParallel(input_layouts=Shard(1)),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    }
    for block in net.blocks:
        parallelize_module(block, mesh, plan)
    parallelize_module(
        net,
        mesh,
        {
            "blocks.0": PrepareModuleInput(
                input_layouts=(Replicate(),),
                desired_input_layouts=(Shard(1),),
                use_local_output=True,
            ),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    x, y = (torch.arange(64.0) * 0.7).sin().reshape(2, 4, 8), torch.arange(8) % 4
    optimizer, found = torch.optim.SGD(net.parameters(), lr=0.1), []
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x).flatten(0, 1), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found, whole(net.parameters())


def lower_precision_and_several_backward_passes():
    net, policy = network(), MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for block in net.blocks:
        fully_shard(block, mp_policy=policy)
    fully_shard(net, mp_policy=policy)
    for step in range(3):
        net.set_requires_gradient_sync(step == 2)
        x, y = rows(step, RANK)
        (nn.functional.cross_entropy(net(x).float(), y) / 3).backward()
    # To two digits, since sums in bfloat16 depend on their order.
    norms = torch.stack([each.grad.full_tensor().norm() for each in net.parameters()])
    return [round(each, 1) for each in (norms * 10).tolist()], str(net(x).dtype)


def a_checkpoint_in_pieces():
    def made():
        net = network()
        for block in net.blocks:
            fully_shard(block)
        fully_shard(net)
        return net, torch.optim.AdamW(net.parameters(), lr=0.05)

    def step(net, optimizer, number):
        optimizer.zero_grad()
        x, y = rows(number, RANK)
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    folder = Path(sys.argv[1]) / "checkpoint"
    net, optimizer = made()
    step(net, optimizer, 0)
    state, steps = get_state_dict(net, optimizer)
    state = {"model": state, "optimizer": steps, "epoch": 3}
    dcp.save(state, storage_writer=dcp.FileSystemWriter(folder))
    other, its = made()
    state, steps = get_state_dict(other, its)
    dcp.load({"model": state, "optimizer": steps}, checkpoint_id=folder)
    set_state_dict(other, its, model_state_dict=state, optim_state_dict=steps)
    step(net, optimizer, 1)
    step(other, its, 1)
    return whole(net.parameters()), whole(other.parameters())


CASES = [
    groups_of_a_grid,
    dimensions_as_one,
    meshes_of_groups,
    the_same_parameters_everywhere,
    copies_of_shards,
    shards_of_divided_layers,
    a_divided_sequence,
    lower_precision_and_several_backward_passes,
    a_checkpoint_in_pieces,
]

if __name__ == "__main__":
    run(CASES)
