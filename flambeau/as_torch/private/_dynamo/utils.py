"""The questions about PyTorch's compiler that packages ask."""

import functools
import warnings
from typing import Any

from flambeau._absent import Absent as _Absent

__all__ = ["is_compile_supported", "warn_once"]

__getattr__ = _Absent("flambeau._dynamo.utils")


@functools.cache
def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warn, the first time that this message is given."""
    warnings.warn(msg, stacklevel=stacklevel + 1)


def is_compile_supported(device_type: Any) -> bool:
    """``True``: functions can be compiled for every device."""
    return True
