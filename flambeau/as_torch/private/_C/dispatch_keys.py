"""PyTorch's dispatch keys; autocast has one for each device type."""

from __future__ import annotations

import enum
from collections.abc import Iterable

__all__ = ["DispatchKey", "DispatchKeySet"]

_NAMES = (
    "Undefined Dense CPU CUDA XLA MPS Meta XPU HPU IPU Lazy PrivateUse1 PrivateUse2 PrivateUse3 "
    "FPGA QuantizedCPU QuantizedCUDA SparseCPU SparseCUDA SparseCsrCPU SparseCsrCUDA "
    "NestedTensorCPU NestedTensorCUDA BackendSelect Python Fake Functionalize Conjugate Negative "
    "ZeroTensor ADInplaceOrView AutogradOther AutogradFunctionality AutogradCPU AutogradCUDA "
    "AutogradXLA AutogradMPS AutogradMeta AutogradXPU AutogradNestedTensor Tracer AutocastCPU "
    "AutocastXPU AutocastIPU AutocastHPU AutocastXLA AutocastMPS AutocastCUDA "
    "AutocastPrivateUse1 FuncTorchBatched BatchedNestedTensor FuncTorchVmapMode Batched VmapMode "
    "FuncTorchGradWrapper PythonTLSSnapshot PreDispatch PythonDispatcher Autograd "
    "CompositeImplicitAutograd CompositeExplicitAutograd CompositeExplicitAutogradNonFunctional"
)

#: PyTorch's dispatch keys by name.
DispatchKey = enum.Enum("DispatchKey", _NAMES)

_AUTOCAST = {"AutocastCPU": "cpu", "AutocastCUDA": "cuda", "AutocastXLA": "tpu"}


class DispatchKeySet:
    """A set of dispatch keys.

    Args:
        keys: One key or several.
    """

    def __init__(self, *keys: DispatchKey) -> None:
        self.keys = frozenset(keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys, *other.keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self.keys & other.keys))

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*(self.keys - other.keys))

    def has(self, key: DispatchKey) -> bool:
        """Whether the set contains a key."""
        return key in self.keys

    def add(self, key: DispatchKey) -> DispatchKeySet:
        """The set with one more key."""
        return DispatchKeySet(*self.keys, key)

    def remove(self, key: DispatchKey) -> DispatchKeySet:
        """The set without a key."""
        return DispatchKeySet(*(self.keys - {key}))

    def autocast_devices(self) -> Iterable[str]:
        """The available device types whose autocast keys are in the set."""
        return [_AUTOCAST[each.name] for each in self.keys if each.name in _AUTOCAST]
