"""A module whose batches are sharded over devices, with replicated parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau.distributed.alike import make_alike
from flambeau.distributed.batches import divided
from flambeau.distributed.device_mesh import as_mesh
from flambeau.distributed.tensor.modules import replicate
from flambeau.nn.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """A module that computes each part of a batch on another device.

    Its parameters and buffers are replicated on all devices, and stay the same objects. The loss is
    that of the whole batch over all devices, and so are the gradients: they need no averaging.
    Batch normalization is over the whole batch. With several processes,
    `distributed.global_batches` combines their parts of the batch.

    Args:
        module: The module.
        device_ids: Accepted for compatibility, like all arguments that are not listed here; at most
            one device.
        output_device: See ``device_ids``.
        dim: The dimension of the batch.
        broadcast_buffers: See ``device_ids``: buffers are the same everywhere.
        init_sync: Whether all processes get the parameters and buffers of process 0.
        process_group: See ``device_ids``.
        bucket_cap_mb: See ``device_ids``: XLA communicates.
        find_unused_parameters: See ``device_ids``: parameters may be unused in any case.
        device_mesh: The devices that share a batch: a mesh, or a slice of one; by default all.
        **options: See ``device_ids``.

    Attributes:
        module: The module; keys of the state dict begin with ``"module."``.

    Raises:
        RuntimeError: No parameter requires grad, several devices are given, or another process has
            a different module.

    >>> import flambeau
    >>> from flambeau.nn.parallel import DistributedDataParallel
    >>> from flambeau import nn
    >>> net = DistributedDataParallel(nn.Linear(2, 3))
    >>> net(flambeau.ones(8, 2)).shape
    flambeau.Size([8, 3])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        *,
        device_mesh: Any = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if not any(each.requires_grad for each in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient; call it as it is, or place it by flambeau.shard()"
            )
        if device_ids is not None and len(device_ids) > 1:
            raise RuntimeError(
                f"device_ids can only be None or contain a single element, but got {device_ids}; "
                "name the devices by device_mesh=init_device_mesh(...)"
            )
        self.device_mesh = as_mesh(device_mesh)
        self.dim = dim
        self.find_unused_parameters = find_unused_parameters
        if init_sync and not self.device_mesh.is_this_process_alone:
            make_alike(module)
        replicate(module, self.device_mesh)
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The output of the module for the whole batch, sharded over the devices."""
        mesh, dim = self.device_mesh, self.dim
        return self.module(*divided(inputs, mesh, dim), **divided(kwargs, mesh, dim))

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """No effect: gradients accumulate, and XLA decides when devices communicate."""
        yield
