"""Batches divided over the devices of a mesh."""

from __future__ import annotations

import math
from typing import Any

from jax.sharding import NamedSharding, PartitionSpec

from flambeau.core.modes import modes
from flambeau.core.tensor import Tensor
from flambeau.core.warning import warn
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor.placements import Shard, sharding_of
from flambeau.distributed.tensor.spreading import lies, put

__all__: list[str] = []


def divided(value: Any, mesh: DeviceMesh, dim: int = 0, *, tell: bool = True) -> Any:
    """The tensors in tuples, lists and dictionaries, cut along a dimension into a part per device.

    Along dimensions of the mesh that a slice leaves out, XLA or what was said before decides.

    Args:
        value: What a module is called with, or gives.
        mesh: The devices that share the batch.
        dim: The dimension of the batch.
        tell: Warn of a batch that the devices do not divide, which each of them then has whole.
    """
    if isinstance(value, Tensor):
        return _divided(value, mesh, dim, tell)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(divided(each, mesh, dim, tell=tell) for each in value))
    if type(value) in (tuple, list):
        return type(value)(divided(each, mesh, dim, tell=tell) for each in value)
    if type(value) is dict:
        return {key: divided(each, mesh, dim, tell=tell) for key, each in value.items()}
    return value


def _divided(tensor: Tensor, mesh: DeviceMesh, dim: int, tell: bool) -> Any:
    if tensor.is_sparse or tensor.is_meta:
        return tensor
    count = mesh.size()
    fits = tensor.ndim > dim and tensor.shape[dim] % count == 0
    if not fits and tell and tensor.ndim > dim:
        warn(
            f"a batch of {tensor.shape[dim]} is not divisible by {count} devices, so each of them "
            f"computes all of it; give multiples of {math.lcm(count)}, or drop_last=True"
        )
    if modes.trace is not None:
        if not fits:
            return tensor
        spec: list[Any] = [PartitionSpec.UNCONSTRAINED] * tensor.ndim
        names = mesh.mesh_dim_names
        spec[dim] = names[0] if len(names) == 1 else names
        return put(tensor, NamedSharding(mesh.jax(), PartitionSpec(*spec)))
    placements = [Shard(dim)] * mesh.ndim if fits else None
    return put(tensor, sharding_of(mesh, placements, tensor.shape, before=lies(tensor)))
