"""Models and tensors on many devices, and what a script asks before it talks to other processes.

One process owns all its devices, and one program runs on them: what XLA must know is where tensors
lie, and it communicates by itself. So there are no groups of processes yet.
"""

from __future__ import annotations

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau._absent import advice_for as _advice_for
from flambeau.distributed import device_mesh as device_mesh
from flambeau.distributed.device_mesh import DeviceMesh as DeviceMesh
from flambeau.distributed.device_mesh import init_device_mesh as init_device_mesh

__all__ = ["DeviceMesh", "ProcessGroup", "init_device_mesh", "is_available", "is_initialized"]

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
