"""Collectives between two processes, and what a script asks of their group."""

import datetime as dt
import os
import pickle
import sys

sys.path.insert(0, os.path.dirname(__file__))

import each_of_two
import numpy as np
import pytest

import flambeau
from flambeau import distributed, nn
from flambeau.distributed import ReduceOp
from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.fsdp import FullyShardedDataParallel
from flambeau.distributed.process_group import store_of_world
from flambeau.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.utils.data import DataLoader, DistributedSampler


def the_group(rank):
    assert distributed.is_initialized()
    assert distributed.get_world_size() == 2
    assert distributed.get_backend() == distributed.Backend.GLOO
    world = distributed.group.WORLD
    assert isinstance(world, distributed.ProcessGroup)
    assert (world.rank(), world.size()) == (rank, 2)
    with pytest.raises(ValueError, match="initialize the default process group twice"):
        distributed.init_process_group()


def reductions(rank):
    mine = flambeau.tensor([1.0, 4.0]) if rank == 0 else flambeau.tensor([3.0, 2.0])
    expected = {"SUM": [4, 6], "AVG": [2, 3], "PRODUCT": [3, 8], "MIN": [1, 2], "MAX": [3, 4]}
    for name, values in expected.items():
        x = mine.clone()
        view = x[:]
        assert distributed.all_reduce(x, ReduceOp[name]) is None
        assert x.tolist() == view.tolist() == values
    bits = flambeau.tensor([0b0110 if rank else 0b0011])
    for name, value in {"BAND": 0b0010, "BOR": 0b0111, "BXOR": 0b0101}.items():
        x = bits.clone()
        distributed.all_reduce(x, ReduceOp[name])
        assert x.item() == value
    work = distributed.all_reduce(mine, async_op=True)
    assert work.wait()
    assert work.is_completed()
    assert mine.tolist() == [4, 6]
    x = flambeau.tensor([1.0 + rank])
    distributed.reduce(x, dst=1)
    assert x.item() == (3 if rank else 1)


def gathering(rank):
    x = flambeau.tensor([[rank, 10 + rank]])
    found = [flambeau.zeros(1, 2, dtype=flambeau.int64) for _ in range(2)]
    distributed.all_gather(found, x)
    assert [each.tolist() for each in found] == [[[0, 10]], [[1, 11]]]
    joined = flambeau.zeros(2, 2, dtype=flambeau.int64)
    distributed.all_gather_into_tensor(joined, x)
    assert joined.tolist() == [[0, 10], [1, 11]]
    stacked = flambeau.zeros(2, 1, 2, dtype=flambeau.int64)
    distributed.all_gather_into_tensor(stacked, x)
    assert stacked.tolist() == [[[0, 10]], [[1, 11]]]
    found = [flambeau.zeros_like(x) for _ in range(2)] if rank == 1 else None
    distributed.gather(x, found, dst=1)
    assert rank == 0 or [each.tolist() for each in found] == [[[0, 10]], [[1, 11]]]


def scattering(rank):
    x = flambeau.zeros(2)
    given = [flambeau.tensor([1.0, 2.0]), flambeau.tensor([3.0, 4.0])] if rank == 0 else None
    distributed.scatter(x, given)
    assert x.tolist() == ([3, 4] if rank else [1, 2])
    distributed.reduce_scatter_tensor(x, flambeau.arange(4.0) * (rank + 1))
    assert x.tolist() == ([6, 9] if rank else [0, 3])
    distributed.reduce_scatter(x, [flambeau.ones(2), flambeau.full((2,), 2.0)])
    assert x.tolist() == ([4, 4] if rank else [2, 2])
    x = flambeau.tensor([rank, rank + 5])
    distributed.broadcast(x, src=1)
    assert x.tolist() == [1, 6]


def exchanging(rank):
    x = flambeau.zeros(4)
    distributed.all_to_all_single(x, flambeau.arange(4.0) + 10 * rank)
    assert x.tolist() == ([2, 3, 12, 13] if rank else [0, 1, 10, 11])
    # Process 0 sends one row and two, process 1 three and none.
    going, coming = ([1, 2], [1, 3]) if rank == 0 else ([3, 0], [2, 0])
    x = flambeau.zeros(sum(coming))
    distributed.all_to_all_single(x, flambeau.arange(3.0) + 10 * rank, coming, going)
    assert x.tolist() == ([1, 2] if rank else [0, 10, 11, 12])


def objects(rank):
    found = [None, None]
    distributed.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": 0}, {"rank": 1}]
    large = [b"x" * 3_000_000 if rank == 0 else None, rank]
    distributed.broadcast_object_list(large)
    assert (len(large[0]), large[1]) == (3_000_000, 0)
    mine = [None]
    distributed.scatter_object_list(mine, ["a", "b"] if rank == 1 else None, src=1)
    assert mine == [["a", "b"][rank]]
    found = [None, None] if rank == 0 else None
    distributed.gather_object(rank, found)
    assert rank == 1 or found == [0, 1]


def one_to_another(rank):
    x = flambeau.arange(6.0).reshape(2, 3) + rank
    y = flambeau.zeros(2, 3)
    distributed.isend(x, 1 - rank).wait()
    assert distributed.recv(y, 1 - rank) == 1 - rank
    assert (y - x).tolist() == (flambeau.ones(2, 3) * (1 - 2 * rank)).tolist()
    with pytest.raises(ValueError, match="Invalid destination rank"):
        distributed.send(x, rank)


def both_ways_at_once(rank):
    x, y = flambeau.full((2,), float(rank)), flambeau.zeros(2)
    # Both wait for the other first, and nobody for ever.
    coming = distributed.irecv(y, 1 - rank)
    distributed.isend(x, 1 - rank)
    assert coming.wait()
    assert coming.source_rank() == 1 - rank
    assert y.tolist() == [1 - rank] * 2
    y.zero_()
    operations = [
        distributed.P2POp(distributed.irecv, y, 1 - rank, tag=3),
        distributed.P2POp(distributed.isend, x, group_peer=1 - rank, tag=3),
    ]
    works = distributed.batch_isend_irecv(operations)
    distributed.barrier()
    assert works[0].is_completed()
    assert y.tolist() == [1 - rank] * 2
    assert all(each.wait() for each in works)
    late = distributed.irecv(y, 1 - rank)
    assert not late.is_completed()
    with pytest.raises(
        distributed.DistBackendError, match=r"irecv\(\): process . has sent nothing"
    ):
        late.wait(dt.timedelta(seconds=0.1))
    with pytest.raises(ValueError, match="need to use the same group"):
        other = distributed.P2POp(distributed.isend, x, 1 - rank, distributed.group.WORLD)
        distributed.batch_isend_irecv([operations[0], other])


class _Code:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return exec, ("import os; os.environ['FLAMBEAU_WAS_RUN'] = '1'",)


def messages_of_others_are_not_run_and_not_believed(rank):
    code = pickle.dumps(_Code())
    # The parts of a message that anybody writes who reaches the first process's port.
    cases = [
        ({"kind": code, "count": b"1", "0": code}, "has sent "),
        ({"kind": b"float32[2]", "count": b"1", "0": code}, "has more than 8 bytes"),
        ({"kind": b"float32[2]", "count": b"1", "0": b"1234"}, r"has sent float32\[2\], but"),
        ({"kind": b"float32[2]", "count": code, "0": code}, "not in the format of this store"),
        ({"kind": b"float32[2]", "count": b"9" * 200}, "not in the format of this store"),
        ({"kind": b"float32[2]", "count": b"999999999", "0": b"12"}, "has sent nothing within"),
        ({"kind": b"float32[99999999999]", "count": b"1", "0": b"12"}, "but the tensor is float32"),
        ({"kind": b"object[2]", "count": b"1", "0": b"12345678"}, "has sent object"),
        ({"kind": b"\xff" * 4000, "count": b"1", "0": b"12345678"}, "has sent "),
    ]
    store, group = store_of_world(), distributed.group.WORLD
    for tag, (parts, message) in enumerate(cases, 50):
        key = f"message/{group.group_name}/1/0/{tag}/1"
        if rank == 1:
            for name, value in parts.items():
                store.set(f"{key}/{name}", value)
        distributed.barrier()
        if rank == 0:
            coming = distributed.irecv(flambeau.zeros(2), 1, tag=tag)
            with pytest.raises(distributed.DistBackendError, match=message) as caught:
                coming.wait(dt.timedelta(seconds=0.5))
            assert len(str(caught.value)) < 500
    if rank == 1:
        store.set(f"message/{group.group_name}/1/0/70/1/kind", b"bool[2]")
        store.put(f"message/{group.group_name}/1/0/70/1", b"\x07\x00")
    else:
        found = flambeau.zeros(2, dtype=flambeau.bool)
        distributed.recv(found, 1, tag=70)
        assert found.numpy().view(np.uint8).tolist() == [1, 0]
    assert "FLAMBEAU_WAS_RUN" not in os.environ


def objects_are_read_only_where_they_are_given(rank):
    code = _Code()
    found = [None, None] if rank == 0 else None
    distributed.gather_object(code if rank == 0 else 1, found)
    mine = [code] if rank == 0 else [2]
    distributed.broadcast_object_list(mine, src=1)
    assert mine == [2]
    assert rank == 0 or "FLAMBEAU_WAS_RUN" not in os.environ


def tensors_of_each_dtype(rank):
    sent = [
        flambeau.ones(2, 3, dtype=each)
        for each in (flambeau.bool, flambeau.bfloat16, flambeau.complex64)
    ]
    for tag, x in enumerate([*sent, flambeau.ones(2, 0), flambeau.tensor(5)], 80):
        y = flambeau.zeros_like(x)
        distributed.isend(x, 1 - rank, tag=tag)
        distributed.recv(y, 1 - rank, tag=tag)
        assert y.tolist() == x.tolist()


def groups_of_some_processes(rank):
    both = distributed.new_group([1, 0], sort_ranks=False)
    assert distributed.get_rank(both) == 1 - rank
    assert distributed.get_global_rank(both, 0) == 1
    x = flambeau.zeros(2)
    distributed.all_gather_into_tensor(x, flambeau.tensor([float(rank)]), group=both)
    assert x.tolist() == [1, 0]
    alone = distributed.new_group([1])
    assert distributed.get_world_size(alone) == (1 if rank else -1)
    x = flambeau.tensor([float(rank)])
    distributed.all_reduce(x, group=alone)
    assert x.item() == rank
    with pytest.raises(RuntimeError, match="rank should be within the world_size"):
        distributed.new_group([0, 2])


def arguments_that_do_not_fit(rank):
    with pytest.raises(ValueError, match="output_tensor must have the shape"):
        distributed.all_gather_into_tensor(flambeau.zeros(3), flambeau.zeros(2))
    with pytest.raises(ValueError, match="a tensor for each of 2 processes, got 1"):
        distributed.all_gather([flambeau.zeros(2)], flambeau.zeros(2))
    with pytest.raises(ValueError, match="AVG needs a floating-point dtype"):
        distributed.all_reduce(flambeau.tensor([1]), ReduceOp.AVG)
    with pytest.raises(ValueError, match=r"src must be one of the processes \[0, 1\], got 2"):
        distributed.broadcast(flambeau.zeros(2), 2)
    with pytest.raises(distributed.DistBackendError, match=r"float32\[2\].*float32\[3\]"):
        distributed.all_reduce(flambeau.zeros(2 + rank))


def processes_that_disagree(rank):
    with pytest.raises(distributed.DistBackendError, match=r"process 1 calls barrier\(\)"):
        distributed.barrier() if rank else distributed.all_reduce(flambeau.ones(2))
    x = distribute_tensor(flambeau.ones(8), init_device_mesh("cpu", (8,)), [Shard(0)])
    with pytest.raises(distributed.DistBackendError, match=r"runs another program: '(prod|sum)'"):
        _ = x.prod() if rank else x.sum()


def a_process_that_does_not_come(rank):
    group = distributed.new_group()
    other = distributed.new_group(timeout=dt.timedelta(seconds=1))
    if rank == 0:
        message = r"barrier\(\): not all of the processes \[0, 1\] come within 0.5 s"
        with pytest.raises(distributed.DistBackendError, match=message):
            distributed.barrier(group, timeout=dt.timedelta(seconds=0.5))
        with pytest.raises(distributed.DistBackendError, match="has sent nothing within"):
            distributed.recv(flambeau.zeros(1), 1, other)


def tensors_on_a_mesh_of_both_processes(rank):
    mesh = init_device_mesh("cpu", (4, 2), mesh_dim_names=("data", "model"))
    assert mesh.get_rank() == 4 * rank
    assert mesh.get_coordinate() == (2 * rank, 0)
    assert mesh.mesh.flatten().tolist() == [*range(8)]
    whole = flambeau.arange(16.0).reshape(8, 2)
    x = distribute_tensor(whole, mesh, [Shard(0), Replicate()])
    assert x.device == whole.device
    assert repr(x) == "tensor(..., size=(8, 2))"
    for read in (x.tolist, x.numpy):
        with pytest.raises(RuntimeError, match=r"only some elements.*full_tensor\(\)"):
            read()
    assert (x + 1).sum().item() == 136
    assert repr(x.sum(0)) == "tensor([56., 64.])"
    assert x.full_tensor().tolist() == whole.tolist()
    assert x.redistribute(mesh, [Replicate(), Shard(1)]).to_local().shape == (8, 1)
    assert x.to_local().tolist() == whole[4 * rank : 4 * rank + 2].tolist()
    with pytest.raises(TypeError, match=r"all_reduce.*lies on a mesh"):
        distributed.all_reduce(x)
    parts = DTensor.from_local(flambeau.full((1, 2), rank + 1.0), mesh, [Shard(0), Replicate()])
    assert parts.full_tensor().tolist() == [[1, 1], [1, 1], [2, 2], [2, 2]]
    x.requires_grad_()
    (x.to_local() * (rank + 1)).sum().backward()
    assert x.grad.full_tensor()[:, 0].tolist() == [1, 1, 0, 0, 2, 2, 0, 0]
    part = flambeau.ones(1, 2, requires_grad=True)
    parts = DTensor.from_local(part, mesh, [Shard(0), Replicate()])
    (parts * whole[:4]).sum().backward()
    assert part.grad.tolist() == [whole[2 * rank : 2 * rank + 2].sum(0).tolist()]
    with pytest.raises(NotImplementedError, match="has a first derivative only"):
        flambeau.autograd.grad(x.to_local().sum(), x, create_graph=True)
    x.grad = None
    (x * whole).sum().backward()
    assert x.grad.full_tensor().tolist() == whole.tolist()
    with pytest.raises(distributed.DistBackendError, match="to be the same in all processes"):
        _ = x * flambeau.full((2,), float(rank))


def a_part_that_another_process_has_as_well(rank):
    mesh = DeviceMesh("cpu", [[0, 5, 2, 3], [4, 1, 6, 7]])
    x = distribute_tensor(flambeau.ones(8), mesh, [Replicate(), Shard(0)]).requires_grad_()
    assert x.to_local().shape == (2,)
    mesh = DeviceMesh("cpu", [[0, 4, 2, 3], [5, 1, 6, 7]])
    x = distribute_tensor(flambeau.ones(8), mesh, [Replicate(), Shard(0)]).requires_grad_()
    with pytest.raises(NotImplementedError, match="a copy of the part that another process has"):
        x.to_local().sum().backward()


def wrapped_models(rank):
    flambeau.manual_seed(rank)
    model = nn.Linear(2, 3)
    first = [None, None]
    distributed.all_gather_object(first, model.weight.numpy(force=True))
    assert not np.array_equal(*first)
    wrapped = DistributedDataParallel(model)
    assert np.array_equal(wrapped.module.weight.numpy(force=True), first[0])
    assert wrapped(flambeau.ones(4, 2)).shape == (4, 3)
    mesh = init_device_mesh("cpu", (8,))
    assert DistributedDataParallel(model, device_mesh=mesh)(flambeau.ones(4, 2)).shape == (8, 3)
    with pytest.raises(RuntimeError, match="expects the same model across all ranks"):
        DistributedDataParallel(nn.Linear(2, 3 + rank))
    flambeau.manual_seed(rank)
    synced = FullyShardedDataParallel(nn.Linear(8, 8), sync_module_states=True)
    assert synced.module.weight.placements == (Shard(0),)
    with pytest.raises(distributed.DistBackendError, match="every process needs the same manual_s"):
        FullyShardedDataParallel(nn.Linear(8, 8))


def batches(rank):
    data = flambeau.arange(24)
    sampler = DistributedSampler(data)
    assert (sampler.num_replicas, sampler.rank) == (2, rank)
    sampler = DistributedSampler(data, shuffle=False)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    found = [*distributed.global_batches(loader)]
    assert [each.shape for each in found] == [(8,)] * 3
    assert found[0].placements == (Shard(0),)
    assert found[0].full_tensor().tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert len(distributed.global_batches(loader)) == 3
    with pytest.raises(ValueError, match="not divisible by the 8 devices"):
        [*distributed.global_batches([flambeau.ones(3)])]


if __name__ == "__main__":
    each_of_two.run(
        [
            the_group,
            reductions,
            gathering,
            scattering,
            exchanging,
            objects,
            one_to_another,
            both_ways_at_once,
            messages_of_others_are_not_run_and_not_believed,
            objects_are_read_only_where_they_are_given,
            tensors_of_each_dtype,
            groups_of_some_processes,
            arguments_that_do_not_fit,
            processes_that_disagree,
            a_process_that_does_not_come,
            tensors_on_a_mesh_of_both_processes,
            a_part_that_another_process_has_as_well,
            wrapped_models,
            batches,
        ]
    )
