"""Questions about Apple's GPUs, under the names of `torch.mps`: JAX knows none here."""

from flambeau._absent import Absent as _Absent

__all__ = ["device_count", "is_available", "manual_seed"]

__getattr__ = _Absent(__name__)


def is_available() -> bool:
    """``False``."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: there is no such device."""
