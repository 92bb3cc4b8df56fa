"""A module that wraps another one with sharded parameters: PyTorch's older interface."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.distributed.alike import make_alike
from flambeau.distributed.device_mesh import as_mesh
from flambeau.distributed.fsdp._fully_shard import fully_shard
from flambeau.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    MixedPrecision,
    ShardingStrategy,
)
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils.clip_grad import clip_grad_norm_

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullyShardedDataParallel", "MixedPrecision",
    "ShardingStrategy",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)


class FullyShardedDataParallel(Module):
    """A module whose parameters are sharded by `fully_shard`.

    Args:
        module: The module.
        process_group: Accepted for compatibility, like all arguments that are not listed here.
        sharding_strategy: ``NO_SHARD`` replicates all parameters; the others shard them, hybrid
            ones along the second dimension of the mesh.
        device_mesh: See `fully_shard`.
        **options: See ``process_group``. With ``sync_module_states=True`` all processes get the
            parameters and buffers of process 0.

    Raises:
        NotImplementedError: Another precision or other memory is requested.
        ValueError: A hybrid strategy without a mesh of two dimensions.
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: Any = None,
        auto_wrap_policy: Any = None,
        *,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        ignored_states: Iterable[Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if mixed_precision is not None or getattr(cpu_offload, "offload_params", cpu_offload):
            raise NotImplementedError(
                "FullyShardedDataParallel computes in the parameters' dtype and on their devices; "
                "use flambeau.autocast, and leave out mixed_precision and cpu_offload"
            )
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        mesh = as_mesh(device_mesh)
        if "HYBRID" in strategy.name and mesh.ndim != 2:
            raise ValueError(
                f"{strategy} needs a device_mesh of two dimensions, got {mesh}; the first copies "
                "parameters, the second divides them"
            )
        if options.get("sync_module_states") and not mesh.is_this_process_alone:
            make_alike(module)
        kept = {each for each in ignored_states or () if isinstance(each, Parameter)}
        if strategy is ShardingStrategy.NO_SHARD:
            kept = {*module.parameters()}
        fully_shard(module, mesh=mesh, ignored_params=kept)
        self._fsdp_wrapped_module = module

    @property
    def module(self) -> Module:
        """The module."""
        return self._fsdp_wrapped_module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the module."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own state dict, with its own keys and the present shardings."""
        return self._fsdp_wrapped_module.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Load the module's own state dict; each tensor keeps the sharding of its predecessor."""
        return self._fsdp_wrapped_module.load_state_dict(state_dict, strict, assign)

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale the gradients so that their total norm is at most ``max_norm``."""
        return clip_grad_norm_([*self.parameters()], max_norm, norm_type)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """No effect: gradients accumulate, and XLA decides when devices communicate."""
        yield
