"""DLPack's capsules: the older form of the protocol, which Python cannot inspect."""

from __future__ import annotations

import ctypes
from typing import Any

# The capsule's struct begins with the address of the elements, followed by their device.
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class Exporter:
    """A capsule as an object with the protocol's methods, for one consumer."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        try:
            address = _pointer_of(self._capsule, b"dltensor")
        except ValueError:
            raise RuntimeError(
                f"from_dlpack() cannot read {self._capsule}: only capsules of the name 'dltensor' "
                "that nobody has read yet; pass the tensor itself"
            ) from None
        kind, index = (ctypes.c_int32 * 2).from_address(address + ctypes.sizeof(ctypes.c_void_p))
        return kind, index
