"""Placements: the sharding of a tensor along each dimension of a mesh, and JAX's equivalent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jax.sharding import NamedSharding, PartitionSpec

from flambeau.distributed.device_mesh import DeviceMesh

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """The sharding of a tensor along one dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it is sharded, along ``dim`` if given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether all devices have the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the devices' values must still be reduced, by ``reduce_op`` if given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """The tensor is split into equal parts, one for each device.

    Args:
        dim: The dimension of the tensor to split.

    >>> from flambeau.distributed.tensor import Shard
    >>> Shard(0)
    Shard(dim=0)
    """

    dim: int

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """The size of the chunk ``rank`` of ``curr_local_size`` elements, and its offset.

        Args:
            curr_local_size: The size of the dimension.
            num_chunks: The number of chunks; the last ones may be smaller.
            rank: The index of the chunk.

        >>> from flambeau.distributed.tensor import Shard
        >>> Shard.local_shard_size_and_offset(5, 3, 2)
        (1, 4)
        """
        chunk = -(-curr_local_size // num_chunks)
        start = min(rank * chunk, curr_local_size)
        return min(chunk, curr_local_size - start), start


@dataclass(frozen=True)
class Replicate(Placement):
    """Each device has the whole tensor."""


@dataclass(frozen=True)
class Partial(Placement):
    """Each device has a summand of the tensor.

    XLA sums such values at once, so no tensor has this placement; `DTensor.from_local` accepts it.

    Args:
        reduce_op: ``"sum"`` or ``"avg"``.
    """

    reduce_op: str = "sum"


def sharding_of(
    mesh: DeviceMesh,
    placements: Sequence[Placement] | Placement | None,
    shape: Sequence[int],
    *,
    before: Any = None,
    name: str = "the tensor",
) -> NamedSharding:
    """JAX's sharding for PyTorch's placements.

    Args:
        mesh: A mesh, or a slice of one.
        placements: One for each dimension of ``mesh``; by default `Replicate`.
        shape: The tensor's shape.
        before: The present sharding of the tensor, which is kept along dimensions that are not in
            the slice.
        name: The name of the tensor in messages.

    Raises:
        ValueError: The placements do not fit the mesh or the tensor, or a size is not divisible.
        RuntimeError: One of them is `Partial`.
    """
    chosen = _one_for_each(mesh, placements)
    pairs = zip(mesh.axes, chosen, strict=True)
    wanted = {axis: placement for axes, placement in pairs for axis in axes}
    stays = {}
    if mesh.is_slice and isinstance(before, NamedSharding) and before.mesh == mesh.jax():
        stays = {axis: dim for axis, dim in _dims(before.spec).items() if axis not in wanted}
    cuts: list[list[str]] = [[] for _ in shape]
    for axis in mesh.jax().axis_names:
        dim = stays.get(axis)
        if axis in wanted:
            dim = _dim_of(wanted[axis], len(shape), name)
        if dim is not None:
            cuts[dim].append(axis)
    check_division(mesh.jax(), cuts, shape, name)
    return NamedSharding(mesh.jax(), spec_of(cuts))


def spec_of(axes: Sequence[Sequence[str]]) -> PartitionSpec:
    """JAX's PartitionSpec: the mesh axes that shard each dimension."""
    parts = [tuple(e) if len(e) > 1 else (e[0] if e else None) for e in axes]
    while parts and parts[-1] is None:
        parts.pop()
    return PartitionSpec(*parts)


def placements_of(sharding: NamedSharding) -> tuple[Placement, ...]:
    """PyTorch's placements for JAX's sharding, one for each dimension of its mesh."""
    dims = _dims(sharding.spec)
    return tuple(
        Shard(dims[axis]) if axis in dims else Replicate() for axis in sharding.mesh.axis_names
    )


def _dims(spec: Any) -> dict[str, int]:
    """The dimension of the tensor that each axis of the mesh shards."""
    found = {}
    for dim, part in enumerate(spec):
        for axis in (part,) if isinstance(part, str) else part or ():
            found[axis] = dim
    return found


def _one_for_each(
    mesh: DeviceMesh, placements: Sequence[Placement] | Placement | None
) -> tuple[Placement, ...]:
    if placements is None:
        return (Replicate(),) * mesh.ndim
    chosen = (placements,) if isinstance(placements, Placement) else tuple(placements)
    if len(chosen) != mesh.ndim or not all(isinstance(each, Placement) for each in chosen):
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`: a placement for each "
            f"of {mesh.mesh_dim_names}, got {list(chosen)}"
        )
    return chosen


def _dim_of(placement: Placement, ndim: int, name: str) -> int | None:
    if isinstance(placement, Partial):
        raise RuntimeError(
            f"Can not redistribute to Partial: {name} cannot be left unreduced, since XLA adds up "
            "what devices compute; use Replicate() or Shard(dim)"
        )
    if not isinstance(placement, Shard):
        return None
    if not -ndim <= placement.dim < ndim:
        raise ValueError(f"{name} has {ndim} dimensions, so it cannot be cut by {placement}")
    return placement.dim % ndim


def check_division(mesh: Any, axes: Sequence[Sequence[str]], shape: Any, name: str) -> None:
    """Fail unless the devices divide the sizes that they shard.

    Raises:
        ValueError: A size is not divisible; the message suggests a size.
    """
    for dim, (size, cut) in enumerate(zip(shape, axes, strict=True)):
        count = math.prod(mesh.shape[axis] for axis in cut)
        if size % count == 0:
            continue
        others = [i for i, each in enumerate(shape) if i != dim and each and each % count == 0]
        more = f", or cut dimension {others[0]} of size {shape[others[0]]}" if others else ""
        raise ValueError(
            f"dimension {dim} of {name}, of shape {list(shape)}, cannot be cut into {count} equal "
            f"parts along {' and '.join(map(repr, cut))} of the mesh: {size} is not divisible by "
            f"{count}; make it {-(-size // count) * count}{more}, or leave it whole with "
            "Replicate()"
        )
