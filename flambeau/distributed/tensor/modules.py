"""Modules whose parameters and buffers are on a mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flambeau.distributed.device_mesh import DeviceMesh, as_mesh
from flambeau.distributed.tensor.placements import sharding_of
from flambeau.distributed.tensor.spreading import DTensor, lies, place
from flambeau.nn.module import Module
from flambeau.nn.parameter import is_lazy

__all__ = ["distribute_module"]


def members(module: Module, recurse: bool = True) -> Iterator[tuple[str, Any]]:
    """The parameters and buffers of a module, by name.

    Raises:
        RuntimeError: One has no shape yet.
    """
    for group in (module.named_parameters(recurse=recurse), module.named_buffers(recurse=recurse)):
        for name, tensor in group:
            if is_lazy(tensor):
                raise RuntimeError(
                    f"{name} has no shape yet, so it cannot be placed on a mesh; call the module "
                    "once before"
                )
            yield name, tensor


def replicate(module: Module, mesh: DeviceMesh, recurse: bool = True) -> None:
    """Replicate the tensors that are not on a mesh yet on all devices."""
    for name, tensor in members(module, recurse):
        if not isinstance(tensor, DTensor):
            place(tensor, sharding_of(mesh, None, tensor.shape, name=name))


def distribute(tensor: Any, mesh: DeviceMesh, placements: Any, name: str = "the tensor") -> None:
    """Move a parameter or buffer to a mesh, in place."""
    place(tensor, sharding_of(mesh, placements, tensor.shape, before=lies(tensor), name=name))


def distribute_module(
    module: Module,
    device_mesh: Any = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
    output_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
) -> Module:
    """Put a module's parameters and buffers on the devices of a mesh.

    Args:
        module: The module; its parameters stay the same objects.
        device_mesh: The mesh; by default all devices.
        partition_fn: Called with the name, the module and the mesh for each module of the tree;
            tensors that it leaves on one device are replicated.
        input_fn: Called with the module, the inputs and the mesh before ``forward``; returns
            inputs.
        output_fn: Called with the module, the outputs and the mesh after ``forward``; returns
            outputs.

    Returns:
        ``module``.
    """
    mesh = as_mesh(device_mesh)
    if partition_fn is not None:
        for name, each in module.named_modules():
            partition_fn(name, each, mesh)
    replicate(module, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda mod, inputs: input_fn(mod, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda mod, inputs, outputs: output_fn(mod, outputs, mesh))
    return module
