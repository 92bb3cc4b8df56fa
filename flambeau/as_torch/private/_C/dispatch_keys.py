"""Names of the parts of PyTorch's dispatcher, of which autocast has one for each type of device."""

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

#: Parts of PyTorch's dispatcher, by their names.
DispatchKey = enum.Enum("DispatchKey", _NAMES)

_AUTOCAST = {"AutocastCPU": "cpu", "AutocastCUDA": "cuda", "AutocastXLA": "tpu"}


class DispatchKeySet:
    """A set of parts of PyTorch's dispatcher.

    Args:
        keys: One or several.
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
        """Whether a part is in it."""
        return key in self.keys

    def add(self, key: DispatchKey) -> DispatchKeySet:
        """The set with one more."""
        return DispatchKeySet(*self.keys, key)

    def remove(self, key: DispatchKey) -> DispatchKeySet:
        """The set without one."""
        return DispatchKeySet(*(self.keys - {key}))

    def autocast_devices(self) -> Iterable[str]:
        """The types of device whose autocast is in it, of those that there are here."""
        return [_AUTOCAST[each.name] for each in self.keys if each.name in _AUTOCAST]
