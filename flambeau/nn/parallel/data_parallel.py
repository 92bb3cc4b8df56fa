"""`DataParallel`, which PyTorch uses to spread a batch over GPUs, on one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.nn.common_types import DeviceLike, Kwargs
from flambeau.nn.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """A module that calls another one, as ``DataParallel`` does with one GPU or none.

    It has the names of PyTorch's class: `module` is the wrapped module, and keys of its state dict
    begin with ``"module."``. The whole batch is computed on the device of the module; use JAX's
    sharding for several devices.

    Args:
        module: The module.
        device_ids: At most one GPU; without one nothing is moved.
        output_device: The device of the result; by default it is not moved.
        dim: Accepted for compatibility: the batch is not split.

    Raises:
        RuntimeError: ``device_ids`` names several GPUs.

    >>> import flambeau
    >>> from flambeau.nn.parallel import DataParallel
    >>> net = DataParallel(flambeau.nn.Linear(2, 3))
    >>> net(flambeau.ones(4, 2)).shape
    flambeau.Size([4, 3])
    >>> list(net.state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[DeviceLike] | None = None,
        output_device: DeviceLike = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.device_ids: list[DeviceLike] = check_one(device_ids)
        self.output_device = output_device
        self.dim = dim
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The output of the module."""
        return self.module(*inputs, **kwargs)


def check_one(device_ids: Sequence[DeviceLike] | None) -> list[DeviceLike]:
    """The given devices, at most one.

    Raises:
        RuntimeError: Several devices are given.
    """
    found = [] if device_ids is None else list(device_ids)
    if len(found) > 1:
        raise RuntimeError(
            f"a batch is not cut for the devices {found}: they work together by JAX's sharding; "
            "place the model by flambeau.shard(model, mesh, rules), and the batch by "
            "distributed.tensor.distribute_tensor"
        )
    return found


def data_parallel(
    module: Module,
    inputs: object,
    device_ids: Sequence[DeviceLike] | None = None,
    output_device: DeviceLike = None,
    dim: int = 0,
    module_kwargs: Kwargs | None = None,
) -> Any:
    """The output of a module, on the device of the module and ``inputs``; see `DataParallel`."""
    check_one(device_ids)
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return module(*given, **(module_kwargs or {}))
