"""A process's rows of a tensor that all processes compute together."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.autograd.function import Function
from flambeau.core.devices import spanning
from flambeau.core.support.modes import modes
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import TracedValueError
from flambeau.distributed.batches import divided, joined, mapped
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.exchange import exchanged, means
from flambeau.distributed.process_group import group_or_world
from flambeau.distributed.tensor.placements import sharding_of
from flambeau.distributed.tensor.spreading import lies, put

__all__: list[str] = []


def shared(value: Any, mesh: DeviceMesh) -> tuple[Any, bool]:
    """The arguments of a module on the devices that share a batch.

    Tensors of this process are its rows of a batch if all arguments are such tensors. Others, and
    those whose first dimension is not that of the first tensor, are the same in all processes.

    Args:
        value: Tensors in containers.
        mesh: The devices.

    Returns:
        The tensors on the mesh, and whether they were rows of this process.

    Raises:
        TracedValueError: In a compiled function, if its arguments are such rows.
        ValueError: The processes have different numbers of rows.
    """
    if mesh.is_this_process_alone:
        return divided(value, mesh), False
    if modes.trace is not None:
        given = modes.trace.arguments()
        if given and all(lies(each) is None for each in given):
            raise TracedValueError(
                "the compiled function takes rows of this process, and its model lies on devices "
                "of several processes; pass the rows of all, as distributed.global_batches gives "
                "them"
            )
        return divided(value, mesh), False
    tensors: list[Tensor] = []
    mapped(value, tensors.append)
    own = [each for each in tensors if lies(each) is None]
    are_rows = len(own) == len(tensors) and any(each.ndim for each in own)
    size = next((each.shape[0] for each in own if each.ndim), -1) if are_rows else -1
    if own:
        _check_alike([[*each.shape] for each in own])

    def share(tensor: Tensor) -> Any:
        if lies(tensor) is not None:
            return divided(tensor, mesh)
        if tensor.ndim and tensor.shape[0] == size:
            return _AllRows.apply(tensor, mesh)
        return put(tensor, sharding_of(mesh, None, tensor.shape))

    return mapped(value, share), are_rows


def _check_alike(shapes: list[list[int]]) -> None:
    group = group_or_world(None)
    if group.channel is None:
        return
    said = [json.loads(e) for e in group.channel.exchange(json.dumps(shapes).encode(), "forward()")]
    if any(each != shapes for each in said):
        listed = "; ".join(f"process {i} has {each}" for i, each in enumerate(said))
        raise ValueError(
            "processes that share a model's parameters need arguments of the same shapes in each, "
            f"but {listed}; pad them, or drop the rest with drop_last=True"
        )


def own_rows(value: Any, mesh: DeviceMesh) -> Any:
    """This process's rows of the results of a module, whose arguments are the rows of processes.

    Gradients are those of the average of the processes' losses. A tensor that is the same on all
    devices, such as a loss, is one that each process has.

    Args:
        value: Tensors in tuples, lists and dictionaries.
        mesh: The devices that share the batch.
    """

    def own(tensor: Tensor) -> Any:
        sharding = lies(tensor)
        if sharding is None or not spanning.spans(tensor._read()):
            return tensor
        return _OwnRows.apply(tensor, mesh, sharding)

    return mapped(value, own)


class _OwnRows(Function):
    """The rows of a tensor on a mesh that are on the devices of this process."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, mesh: DeviceMesh, sharding: Any) -> Tensor:
        ctx.mesh, ctx.sharding = mesh, sharding
        array = tensor._read()
        ctx.is_whole = array.is_fully_replicated
        if ctx.is_whole:
            return Tensor._wrap(array.addressable_data(0))
        # Copies of the same rows are on several devices, if the mesh has other dimensions.
        parts = {each.index[0].start or 0: each.data for each in array.addressable_shards}
        first, *others = [parts[start] for start in sorted(parts)]
        (where,) = first.devices()
        rows = [first, *(jax.device_put(each, where) for each in others)]
        return Tensor._wrap(jnp.concatenate(rows) if others else first)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        (grad,) = grad_outputs
        if ctx.is_whole:
            group = group_or_world(None)
            (array,) = exchanged(means, [grad._read()], group, group.size())
            return put(Tensor._wrap(array), ctx.sharding), None, None
        return joined(grad / len(ctx.mesh.processes), ctx.mesh), None, None


class _AllRows(Function):
    """The rows of all processes, of which each gives its own."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, mesh: DeviceMesh) -> Tensor:
        ctx.mesh = mesh
        found = joined(tensor, mesh)
        ctx.sharding = lies(found)
        return found

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        # The results' gradients are those of the average of the losses.
        grad = put(grad_outputs[0], ctx.sharding)
        return _OwnRows.apply(grad, ctx.mesh, ctx.sharding) * len(ctx.mesh.processes), None
