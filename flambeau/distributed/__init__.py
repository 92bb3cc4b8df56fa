"""What a script asks before it talks to other processes: there are none.

Several devices work together by JAX's sharding, within one program; several machines by
``jax.distributed``.
"""

from __future__ import annotations

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau._absent import advice_for as _advice_for
from flambeau.distributed import device_mesh as device_mesh

__all__ = ["ProcessGroup", "is_available", "is_initialized"]

__getattr__ = _Absent(__name__)


class ProcessGroup:
    """Processes that work together; nothing is one, and programs annotate with it.

    Raises:
        NotImplementedError: One is made.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(_advice_for("distributed.init_process_group"))


def is_available() -> bool:
    """``False``: there are no groups of processes."""
    return False


def is_initialized() -> bool:
    """``False``: there is no default group of processes."""
    return False
