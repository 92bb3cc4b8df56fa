"""Questions about Apple's GPUs, under the names of `torch.mps`: JAX knows none here."""

from flambeau._absent import Absent as _Absent
from flambeau.xpu import device_count, is_available, manual_seed

__all__ = ["device_count", "is_available", "manual_seed"]

__getattr__: _Absent = _Absent(__name__)
