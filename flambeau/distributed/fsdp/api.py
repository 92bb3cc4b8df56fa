"""Arguments of `FullyShardedDataParallel`."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy",
    "OptimStateDictConfig", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType",
]  # fmt: skip


class ShardingStrategy(enum.Enum):
    """The parameters that `FullyShardedDataParallel` shards: all, or none."""

    FULL_SHARD = enum.auto()
    SHARD_GRAD_OP = enum.auto()
    NO_SHARD = enum.auto()
    HYBRID_SHARD = enum.auto()
    _HYBRID_SHARD_ZERO2 = enum.auto()


class BackwardPrefetch(enum.Enum):
    """The time at which parameters are gathered for backward: XLA decides."""

    BACKWARD_PRE = enum.auto()
    BACKWARD_POST = enum.auto()


@dataclass
class MixedPrecision:
    """The dtypes of parameters, gradients and buffers, which `FullyShardedDataParallel` refuses.

    Use `flambeau.autocast` to choose the dtypes of operators.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes in which a module of `fully_shard` computes; ``None`` changes none.

    Attributes:
        param_dtype: The dtype of parameters and floating-point arguments in forward and backward.
            Gradients and optimizers keep the parameters' own.
        reduce_dtype: Accepted for compatibility: XLA adds up gradients as it computes them.
        output_dtype: The dtype of the module's results.
        cast_forward_inputs: Whether arguments are converted.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class CPUOffload:
    """Whether parameters stay on the CPU, which `FullyShardedDataParallel` refuses."""

    offload_params: bool = False


class StateDictType(enum.Enum):
    """The parts of a state dict. Here it has whole tensors, which know the devices they are on."""

    FULL_STATE_DICT = enum.auto()
    LOCAL_STATE_DICT = enum.auto()
    SHARDED_STATE_DICT = enum.auto()


@dataclass
class StateDictConfig:
    """How a module's state dict is made: it has no effect, as in the classes below."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """`StateDictConfig` for whole tensors."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """`StateDictConfig` for flattened parts."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """`StateDictConfig` for parts."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """`StateDictConfig` for an optimizer."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """`FullStateDictConfig` for an optimizer."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """`LocalStateDictConfig` for an optimizer."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """`ShardedStateDictConfig` for an optimizer."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """A type of state dict, and its configurations."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
