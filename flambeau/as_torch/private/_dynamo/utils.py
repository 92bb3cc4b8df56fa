"""The questions about PyTorch's compiler that packages ask."""

from typing import Any

from flambeau._absent import Absent as _Absent

__all__ = ["is_compile_supported"]

__getattr__ = _Absent("flambeau._dynamo.utils")


def is_compile_supported(device_type: Any) -> bool:
    """``True``: functions can be compiled for every device."""
    return True
