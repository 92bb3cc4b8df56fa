"""Which part of a divided tensor a process has, by the private name that packages import."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor.placements import Placement, Shard

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int],
    mesh: DeviceMesh,
    placements: Sequence[Placement],
    skip_offset: bool = False,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of the part that this process's first device has, and where it begins.

    Args:
        global_shape: The shape of the whole.
        mesh: A mesh of devices.
        placements: One for each dimension of the mesh. Where two cut the same dimension of the
            tensor, the later one cuts the part that the earlier one leaves.
        skip_offset: Give an empty tuple in the place of the offset.

    >>> from flambeau.distributed import init_device_mesh
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> compute_local_shape_and_global_offset((4, 3), mesh, [Shard(0)])
    ((4, 3), (0, 0))
    """
    shape, offset = list(global_shape), [0] * len(global_shape)
    for size, place, placement in zip(mesh.shape, mesh.get_coordinate(), placements, strict=True):
        if isinstance(placement, Shard):
            dim = placement.dim % len(shape)
            shape[dim], start = Shard.local_shard_size_and_offset(shape[dim], size, place)
            offset[dim] += start
    return tuple(shape), () if skip_offset else tuple(offset)
