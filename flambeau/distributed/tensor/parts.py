"""The local part of a tensor on a mesh over several processes, and gradients through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.devices import meshes
from flambeau.core.devices.donation import copied, put
from flambeau.core.support.modes import modes
from flambeau.core.tape import nodes as tape
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor.placements import Partial, Placement, Shard, sharding_of

__all__: list[str] = []


def first_device(array: Any) -> Any:
    """The first of this process's devices that hold an array."""
    here = array.sharding.addressable_devices
    return next(each for each in meshes.devices_of(array) if each in here)


def own_part(tensor: Tensor) -> Tensor:
    """The part on this process's first device; differentiable."""
    array = tensor._read()
    device = first_device(array)
    part = next(each.data for each in array.addressable_shards if each.device == device)
    result = Tensor._wrap(copied(part))
    if tensor.requires_grad and modes.grad_enabled:
        node = _ToLocalBackward((tape.edge_of(tensor),))
        node.array = array
        result._grad_fn, result._requires_grad = node, True
    return result


class _ToLocalBackward(tape.Node):
    """The cotangents of all processes' parts as one array, which is zero elsewhere."""

    __slots__ = ("array",)

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`.

        Raises:
            NotImplementedError: A device of this process has the part that another process took, or
                a second derivative is requested.
        """
        _check_order(as_tensors, "to_local()")
        (cotangent,) = cotangents
        array, sharding = self.array, self.array.sharding
        regions = sharding.devices_indices_map(array.shape)
        mine = regions[first_device(array)]
        firsts: dict[int, Any] = {}
        for each in meshes.devices_of(array):
            firsts.setdefault(each.process_index, regions[each])
        parts = []
        for each in sharding.addressable_devices:
            region = regions[each]
            if region != mine and any(region == other for other in firsts.values()):
                raise NotImplementedError(
                    "the gradient of to_local(): a device of this process has a copy of the part "
                    f"that another process has taken of a tensor of shape {[*array.shape]}; use "
                    "full_tensor(), or a mesh in which each process has parts of its own"
                )
            size = tuple(
                len(range(*s.indices(n))) for s, n in zip(region, array.shape, strict=True)
            )
            part = cotangent if region == mine else jnp.zeros(size, cotangent.dtype)
            parts.append(put(part, each))
        return (jax.make_array_from_single_device_arrays(array.shape, sharding, parts),)


def of_own_parts(part: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> Tensor:
    """The tensor composed of the parts that each process passes; differentiable.

    Raises:
        NotImplementedError: A placement is `Partial`.
    """
    if any(isinstance(each, Partial) for each in placements):
        raise NotImplementedError(
            "DTensor.from_local() over several processes: add up by all_reduce"
        )
    shape = [*part.shape]
    for count, each in zip(mesh.shape, placements, strict=True):
        if isinstance(each, Shard):
            shape[each.dim] *= count
    sharding, array = sharding_of(mesh, placements, shape), part._read()
    parts = [put(array, device) for device in sharding.addressable_devices]
    result = Tensor._wrap(jax.make_array_from_single_device_arrays(tuple(shape), sharding, parts))
    if part.requires_grad and modes.grad_enabled:
        node = _FromLocalBackward((tape.edge_of(part),))
        node.origin, node.sharding = array.sharding, sharding
        result._grad_fn, result._requires_grad = node, True
    return result


class _FromLocalBackward(tape.Node):
    """The sum of the cotangents of all parts that the process passed."""

    __slots__ = ("origin", "sharding")

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`.

        Raises:
            NotImplementedError: A second derivative is requested.
        """
        _check_order(as_tensors, "DTensor.from_local()")
        (cotangent,) = cotangents
        placed = meshes.placed(cotangent, self.sharding)
        # Devices with the same part have the same cotangent.
        different = {str(each.index): each.data for each in placed.addressable_shards}
        parts = [put(each, self.origin) for each in different.values()]
        return (sum(parts[1:], start=parts[0]),)


def _check_order(as_tensors: bool, name: str) -> None:
    if as_tensors:
        raise NotImplementedError(
            f"{name} over several processes has a first derivative only (create_graph=True); "
            "full_tensor() and redistribute() have all"
        )
