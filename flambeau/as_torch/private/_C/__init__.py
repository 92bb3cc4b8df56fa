"""`torch._C`: the attributes of PyTorch's C++ extension that packages read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.accelerator import current_accelerator
from flambeau.amp.autocast_mode import autocast
from flambeau.as_torch.private._C import _distributed_rpc as _distributed_rpc
from flambeau.as_torch.private._C import _functorch as _functorch
from flambeau.as_torch.private._C import _nn as _nn
from flambeau.as_torch.private._C.dispatch_keys import DispatchKey, DispatchKeySet
from flambeau.checkpoint.file_reader import PyTorchFileReader
from flambeau.core.devices.device import as_device, device, get_default_device
from flambeau.core.devices.layout import layout, memory_format
from flambeau.core.operators.overrides import DisableTorchFunctionSubclass
from flambeau.core.support.dtype import dtype
from flambeau.core.values.inside import capture
from flambeau.core.values.tensor import Size, Tensor, _disabled_torch_function_impl
from flambeau.futures import Future
from flambeau.jit.script_module import CompilationUnit, ScriptFunction, ScriptModule
from flambeau.linalg import LinAlgError as _LinAlgError
from flambeau.random.generator import Generator

__all__ = [
    "CompilationUnit", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet",
    "Future", "Generator", "PyTorchFileReader", "ScriptFunction", "ScriptModule", "Size",
    "_LinAlgError", "_TensorBase", "_TensorMeta", "_disabled_torch_function_impl", "device",
    "dtype", "layout", "memory_format",
]  # fmt: skip

__getattr__ = _Absent("flambeau._C")

_TensorBase = TensorBase = Tensor
_TensorMeta = type(Tensor)


class _Functions(type):
    def __getattr__(cls, name: str) -> Any:
        return getattr(import_module("flambeau"), name)


class _VariableFunctionsClass(metaclass=_Functions):
    """The class of PyTorch's functions, which pickles refer to."""


_VariableFunctions = _VariableFunctionsClass


def _are_functorch_transforms_active() -> bool:
    """Whether the caller is under a transformation of JAX, such as `func.vmap`."""
    return capture() is not None


def _get_accelerator(check: bool | None = None) -> device:
    """The accelerator of this machine, or the CPU."""
    return current_accelerator() or as_device("cpu")


def _get_default_device() -> str:
    """The name of the device of new tensors."""
    return str(get_default_device())


@contextlib.contextmanager
def _ExcludeDispatchKeyGuard(keys: DispatchKeySet) -> Iterator[None]:
    """A context manager that disables autocast on devices whose autocast key is excluded."""
    with contextlib.ExitStack() as stack:
        for each in keys.autocast_devices():
            stack.enter_context(autocast(each, enabled=False))
        yield
