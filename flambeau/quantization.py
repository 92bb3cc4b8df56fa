"""Stubs of PyTorch's quantization. There are no quantized tensors, so they return their input."""

from __future__ import annotations

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.nn.module import Module

__all__ = ["DeQuantStub", "FakeQuantizeBase", "ObserverBase", "QuantStub"]

__getattr__: _Absent = _Absent(__name__)


class _Stub(Module):
    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Any) -> Any:
        """Return the input."""
        return x


class QuantStub(_Stub):
    """An identity module, like PyTorch's before a model is converted.

    Args:
        qconfig: Kept as the attribute of that name, if it is given.
    """


class DeQuantStub(_Stub):
    """An identity module, like PyTorch's before a model is converted.

    Args:
        qconfig: Kept as the attribute of that name, if it is given.
    """


class ObserverBase(Module):
    """PyTorch's base of modules that watch the range of numbers; nothing here is an instance.

    Args:
        dtype: Kept as the attribute of that name.
        is_dynamic: Kept as the attribute of that name.
    """

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic


class FakeQuantizeBase(Module):
    """PyTorch's base of modules that simulate quantization; nothing here is an instance."""
