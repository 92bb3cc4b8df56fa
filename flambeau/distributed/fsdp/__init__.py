"""Parameters, gradients and optimizer state sharded over the devices that share a batch."""

from __future__ import annotations

from flambeau._absent import Absent as _Absent
from flambeau.distributed.fsdp._fully_shard import (
    CPUOffloadPolicy,
    FSDPModule,
    OffloadPolicy,
    UnshardHandle,
    fully_shard,
)
from flambeau.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
)
from flambeau.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel

__all__ = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FSDPModule", "FullyShardedDataParallel",
    "MixedPrecision", "MixedPrecisionPolicy", "OffloadPolicy", "ShardingStrategy",
    "UnshardHandle", "fully_shard",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)
