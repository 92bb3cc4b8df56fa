"""Questions about Intel's GPUs, under the names of `torch.xpu`: JAX knows none here."""

from flambeau._absent import Absent as _Absent

__all__ = ["device_count", "is_available", "is_initialized", "manual_seed", "manual_seed_all"]

__getattr__: _Absent = _Absent(__name__)


def is_available() -> bool:
    """``False``."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: there is no such device."""


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no such device."""


def is_initialized() -> bool:
    """``False``."""
    return False
