"""What a script asks before it talks to other processes: there are none.

Several devices work together by JAX's sharding, within one program; several machines by
``jax.distributed``.
"""

from __future__ import annotations

from flambeau._absent import Absent as _Absent

__all__ = ["is_available", "is_initialized"]

__getattr__ = _Absent(__name__)


def is_available() -> bool:
    """``False``: there are no groups of processes."""
    return False


def is_initialized() -> bool:
    """``False``: there is no default group of processes."""
    return False
