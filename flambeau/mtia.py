"""Questions about Meta's accelerators, under the names of `torch.mtia`: JAX knows none here."""

from flambeau._absent import Absent as _Absent
from flambeau.xpu import device_count, is_available, is_initialized, manual_seed, manual_seed_all

__all__ = ["device_count", "is_available", "is_initialized", "manual_seed", "manual_seed_all"]

__getattr__: _Absent = _Absent(__name__)
