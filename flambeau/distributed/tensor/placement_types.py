"""Placements under the name of PyTorch's module."""

from __future__ import annotations

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.distributed.tensor.placements import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

__getattr__: _Absent = _Absent(__name__)


class _StridedShard(Placement):
    """A dimension sharded in strides, which is not supported here.

    Raises:
        NotImplementedError: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "flambeau has no _StridedShard: XLA divides a dimension into equal parts that lie one "
            "after the other; use Shard"
        )
