"""A process's rows of a tensor that all processes compute together."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau.autograd.function import Function
from flambeau.core.devices import spanning
from flambeau.core.support.modes import modes
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import TracedValueError
from flambeau.distributed.batches import joined, mapped
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.exchange import exchanged, means
from flambeau.distributed.process_group import get_world_size, group_or_world
from flambeau.distributed.tensor.spreading import lies, put

__all__: list[str] = []


def are_own(value: Any, mesh: DeviceMesh) -> bool:
    """Whether the arguments of a module are rows of this process, and others have other rows.

    Raises:
        TracedValueError: In a compiled function, if its arguments are such rows.
    """
    if mesh.is_this_process_alone:
        return False
    if modes.trace is not None:
        given = modes.trace.arguments()
        if given and all(lies(each) is None for each in given):
            raise TracedValueError(
                "the compiled function takes rows of this process, and its model lies on devices "
                "of several processes; pass the rows of all, as distributed.global_batches gives "
                "them"
            )
        return False
    found: list[bool] = []
    mapped(value, lambda tensor: found.append(lies(tensor) is None))
    return any(found)


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
        return joined(grad / get_world_size(), ctx.mesh), None, None
