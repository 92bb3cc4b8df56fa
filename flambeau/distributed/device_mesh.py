"""Devices in rows and columns, by the name of their class: programs annotate with it."""

from __future__ import annotations

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau._absent import advice_for as _advice_for

__all__ = ["DeviceMesh"]

__getattr__ = _Absent(__name__)


class DeviceMesh:
    """Devices that work together; nothing is one.

    Raises:
        NotImplementedError: One is made.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(_advice_for("distributed.device_mesh.init_device_mesh"))
