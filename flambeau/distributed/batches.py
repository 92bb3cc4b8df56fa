"""Batches sharded over the devices of a mesh."""

from __future__ import annotations

import collections
import copy
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from flambeau.core.support.modes import modes
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.device_mesh import DeviceMesh, as_mesh
from flambeau.distributed.tensor.placements import Shard, sharding_of
from flambeau.distributed.tensor.spreading import lies, put

__all__ = ["global_batches"]


class global_batches:
    """The batches of a loader, sharded over the devices of a mesh, moved ahead of their use.

    The loader of each process yields a part of the batch, as selected by a `DistributedSampler`.
    The parts are concatenated to one tensor on the devices of all processes. The next batches are
    moved to the devices while a step runs.

    Args:
        loader: Yields batches: tensors in tuples, lists and dictionaries.
        device_mesh: The devices that share a batch: a mesh, or a slice of one; by default all.
        dim: The dimension of the batch.
        prefetch: The number of batches moved ahead.

    Raises:
        ValueError: The devices do not divide a batch. ``DataLoader(..., drop_last=True)`` drops an
            incomplete last batch.

    >>> import flambeau
    >>> from flambeau.distributed import global_batches
    >>> from flambeau.utils.data import DataLoader
    >>> loader = DataLoader(flambeau.arange(4), batch_size=2)
    >>> [batch.shape for batch in global_batches(loader)]
    [flambeau.Size([2]), flambeau.Size([2])]
    """

    def __init__(
        self, loader: Iterable[Any], device_mesh: Any = None, *, dim: int = 0, prefetch: int = 2
    ) -> None:
        self.loader = loader
        self.device_mesh = as_mesh(device_mesh)
        self.dim = dim
        self.prefetch = prefetch

    def __iter__(self) -> Iterator[Any]:
        ahead: collections.deque[Any] = collections.deque()
        for batch in self.loader:
            ahead.append(mapped(batch, self._joined))
            if len(ahead) > self.prefetch:
                yield ahead.popleft()
        yield from ahead

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def _joined(self, tensor: Tensor) -> Any:
        return joined(tensor, self.device_mesh, self.dim)


def joined(part: Tensor, mesh: DeviceMesh, dim: int = 0) -> Any:
    """A tensor on the devices of a mesh, from this process's part along a dimension.

    Raises:
        ValueError: The devices do not divide the dimension.
    """
    if part.is_sparse or part.is_meta or lies(part) is not None:
        return part
    processes = len(mesh.processes)
    shape = [*part.shape]
    if part.ndim <= dim or shape[dim] * processes % mesh.size():
        raise ValueError(
            f"a batch of shape {shape} in each of {processes} processes is not divisible by the "
            f"{mesh.size()} devices of {mesh} along dimension {dim}; give each process a multiple "
            f"of {max(1, mesh.size() // processes)}, or pass drop_last=True to the loader"
        )
    placements = [Shard(dim)] * mesh.ndim
    shape[dim] *= processes
    sharding = sharding_of(mesh, placements, shape)
    array = part.detach()._read()
    whole = jax.make_array_from_process_local_data(sharding, np.asarray(array), tuple(shape))
    return Tensor._wrap(whole)


def divided(value: Any, mesh: DeviceMesh, dim: int = 0, *, tell: bool = True) -> Any:
    """Tensors in tuples, lists and dictionaries, sharded over the devices along a dimension.

    Along dimensions of the mesh that are not in the slice, XLA or an earlier placement decides.

    Args:
        value: An argument or a result of a module.
        mesh: The devices that share the batch.
        dim: The dimension of the batch.
        tell: Whether to warn about a batch that the devices do not divide, which is then
            replicated.
    """
    return mapped(value, lambda tensor: _divided(tensor, mesh, dim, tell))


def mapped(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """The results of ``function`` for the tensors in containers and dataclasses."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(each, function) for each in value))
    if type(value) in (tuple, list):
        return type(value)(mapped(each, function) for each in value)
    if isinstance(value, dict):
        new = copy.copy(value)
        for key, each in value.items():
            new[key] = mapped(each, function)
        return new
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        new = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(new, field.name, mapped(getattr(value, field.name), function))
        return new
    return value


def _divided(tensor: Tensor, mesh: DeviceMesh, dim: int, tell: bool) -> Any:
    if tensor.is_sparse or tensor.is_meta:
        return tensor
    if modes.trace is None and lies(tensor) is None and not mesh.is_this_process_alone:
        return joined(tensor, mesh, dim)
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
        axes = sum(mesh.axes, ())
        spec[dim] = axes[0] if len(axes) == 1 else axes
        return put(tensor, NamedSharding(mesh.jax(), PartitionSpec(*spec)))
    placements = [Shard(dim)] * mesh.ndim if fits else None
    return put(tensor, sharding_of(mesh, placements, tensor.shape, before=lies(tensor)))
