"""Intel's library of linear algebra, which XLA does not call."""

from __future__ import annotations

from flambeau.backends.mkldnn import VERBOSE_OFF, VERBOSE_ON
from flambeau.backends.mkldnn import verbose as _verbose

__all__ = ["VERBOSE_OFF", "VERBOSE_ON", "is_available", "verbose"]


def is_available() -> bool:
    """``False``."""
    return False


class verbose(_verbose):
    """A block in which PyTorch's library prints what it does; XLA prints nothing."""

    def __init__(self, enable: int) -> None:
        super().__init__(enable)
