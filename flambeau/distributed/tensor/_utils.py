"""The local part of a sharded tensor, under the private name that packages import."""

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
    """The shape and the offset of the part on this process's first device.

    Args:
        global_shape: The shape of the whole tensor.
        mesh: A mesh of devices.
        placements: One for each dimension of the mesh. If two shard the same dimension of the
            tensor, the later one splits the part of the earlier one.
        skip_offset: Return an empty tuple as offset.

    >>> from flambeau.distributed.tensor import Shard
    >>> from flambeau.distributed.tensor._utils import compute_local_shape_and_global_offset
    >>> from flambeau.distributed import init_device_mesh
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> compute_local_shape_and_global_offset((4, 3), mesh, [Shard(0)])
    ((4, 3), (0, 0))
    """
    shape, offset = list(global_shape), [0] * len(global_shape)
    coordinate = mesh.get_coordinate()
    if coordinate is None:  # This process has no device in the mesh.
        return (0,), ()
    for size, place, placement in zip(mesh.shape, coordinate, placements, strict=True):
        if isinstance(placement, Shard):
            dim = placement.dim % len(shape)
            shape[dim], start = Shard.local_shard_size_and_offset(shape[dim], size, place)
            offset[dim] += start
    return tuple(shape), () if skip_offset else tuple(offset)
