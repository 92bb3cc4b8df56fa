"""New tensors on the devices of a mesh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.distributed.device_mesh import as_mesh
from flambeau.distributed.tensor.placements import Placement, sharding_of
from flambeau.distributed.tensor.spreading import put
from flambeau.ops.draws import sampling
from flambeau.ops.factories import creation

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]


def _create(
    make: Callable[..., Any],
    size: Any,
    device_mesh: Any,
    placements: Sequence[Placement] | None,
    requires_grad: bool,
    options: dict[str, Any],
) -> Any:
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    sharding = sharding_of(as_mesh(device_mesh), placements, tuple(shape))
    return put(make(tuple(shape), **options), sharding).requires_grad_(requires_grad)


def zeros(
    *size: Any,
    requires_grad: bool = False,
    device_mesh: Any = None,
    placements: Sequence[Placement] | None = None,
    **options: Any,
) -> Any:
    """A tensor of zeros on a mesh; see `distribute_tensor`."""
    return _create(creation.zeros, size, device_mesh, placements, requires_grad, options)


def ones(
    *size: Any,
    requires_grad: bool = False,
    device_mesh: Any = None,
    placements: Sequence[Placement] | None = None,
    **options: Any,
) -> Any:
    """A tensor of ones on a mesh; see `distribute_tensor`."""
    return _create(creation.ones, size, device_mesh, placements, requires_grad, options)


def empty(
    *size: Any,
    requires_grad: bool = False,
    device_mesh: Any = None,
    placements: Sequence[Placement] | None = None,
    **options: Any,
) -> Any:
    """A tensor on a mesh with arbitrary elements; see `distribute_tensor`."""
    return _create(creation.empty, size, device_mesh, placements, requires_grad, options)


def full(
    size: Any,
    fill_value: Any,
    *,
    requires_grad: bool = False,
    device_mesh: Any = None,
    placements: Sequence[Placement] | None = None,
    **options: Any,
) -> Any:
    """A tensor of one value on a mesh; see `distribute_tensor`."""
    options["fill_value"] = fill_value
    return _create(creation.full, (size,), device_mesh, placements, requires_grad, options)


def rand(
    *size: Any,
    requires_grad: bool = False,
    device_mesh: Any = None,
    placements: Sequence[Placement] | None = None,
    **options: Any,
) -> Any:
    """Uniform random numbers on a mesh, equal for every mesh; see `distribute_tensor`."""
    return _create(sampling.rand, size, device_mesh, placements, requires_grad, options)


def randn(
    *size: Any,
    requires_grad: bool = False,
    device_mesh: Any = None,
    placements: Sequence[Placement] | None = None,
    **options: Any,
) -> Any:
    """Normal random numbers on a mesh, equal for every mesh; see `distribute_tensor`."""
    return _create(sampling.randn, size, device_mesh, placements, requires_grad, options)
