"""Collectives through which gradients flow back to the processes, under PyTorch's names."""

from __future__ import annotations

from flambeau._absent import Absent as _Absent
from flambeau.distributed.nn.functional import all_gather as all_gather
from flambeau.distributed.nn.functional import all_reduce as all_reduce

__all__ = ["all_gather", "all_reduce"]

__getattr__ = _Absent(__name__)
