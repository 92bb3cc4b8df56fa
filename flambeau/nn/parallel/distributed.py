"""The name of PyTorch's module for several processes, of which there are none."""

from __future__ import annotations

from typing import Any

from flambeau.nn.module import Module

__all__ = ["DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Nothing is one: several devices work together by JAX's sharding, in one process.

    Raises:
        RuntimeError: One is made.
    """

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        raise RuntimeError(
            "there are no groups of processes, so no module is spread over them: several devices "
            "work together by JAX's sharding; place the model by flambeau.shard(model, mesh, "
            "rules), and the batch by distributed.tensor.distribute_tensor"
        )
