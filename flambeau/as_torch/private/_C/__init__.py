"""`torch._C`: what packages read in PyTorch's part that is written in C++."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.accelerator import current_accelerator
from flambeau.amp.autocast_mode import autocast
from flambeau.as_torch.private._C import _nn as _nn
from flambeau.as_torch.private._C.dispatch_keys import DispatchKey, DispatchKeySet
from flambeau.checkpoint.file_reader import PyTorchFileReader
from flambeau.core.device import as_device, device, get_default_device
from flambeau.core.dtype import dtype
from flambeau.core.inside import capture
from flambeau.core.layout import layout, memory_format
from flambeau.core.overrides import DisableTorchFunctionSubclass
from flambeau.core.tensor import Size, Tensor, _disabled_torch_function_impl
from flambeau.futures import Future
from flambeau.jit.script_module import CompilationUnit, ScriptFunction, ScriptModule
from flambeau.linalg import LinAlgError as _LinAlgError
from flambeau.random.generator import Generator

__all__ = [
    "CompilationUnit", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet", "Function",
    "Future", "Generator", "Graph", "Node", "PyTorchFileReader", "ScriptFunction", "ScriptModule",
    "Size", "Value", "_LinAlgError", "_TensorBase", "_TensorMeta", "_disabled_torch_function_impl",
    "device", "dtype", "layout", "memory_format",
]  # fmt: skip

__getattr__ = _Absent("flambeau._C")

_TensorBase = TensorBase = Tensor
_TensorMeta = type(Tensor)


class _Functions(type):
    def __getattr__(cls, name: str) -> Any:
        return getattr(import_module("flambeau"), name)


class _VariableFunctionsClass(metaclass=_Functions):
    """Where PyTorch's functions are; pickles name them by it."""


_VariableFunctions = _VariableFunctionsClass


class Graph:
    """A program of TorchScript's; nothing is one here."""


class Node:
    """A part of such a program; nothing is one here."""


class Value:
    """A value in such a program; nothing is one here."""


class Function:
    """A function of TorchScript's; nothing is one here."""


def _log_api_usage_once(*args: Any) -> None:
    """Nothing: calls are not counted."""


def _get_tracing_state() -> None:
    """``None``: nothing is traced for TorchScript."""


def _are_functorch_transforms_active() -> bool:
    """Whether JAX transforms the function that asks, by `func.vmap` or the like."""
    return capture() is not None


def _get_accelerator(check: bool | None = None) -> device:
    """The accelerator of this machine, or the CPU."""
    return current_accelerator() or as_device("cpu")


def _get_default_device() -> str:
    """The device of new tensors, by its name."""
    return str(get_default_device())


def _get_privateuse1_backend_name() -> str:
    """PyTorch's name for a device of a third-party backend."""
    return "privateuseone"


def _cuda_isInBadFork() -> bool:
    """``False``: JAX itself warns of a fork."""
    return False


@contextlib.contextmanager
def _ExcludeDispatchKeyGuard(keys: DispatchKeySet) -> Iterator[None]:
    """A block without autocast, for the types of device whose key of autocast is excluded."""
    with contextlib.ExitStack() as stack:
        for each in keys.autocast_devices():
            stack.enter_context(autocast(each, enabled=False))
        yield


# Settings of TorchScript's compiler, of which there is none.


def _jit_set_profiling_executor(enabled: bool) -> bool:
    """``False``: there is no such compiler."""
    return False


def _jit_set_profiling_mode(enabled: bool) -> bool:
    """``False``: there is no such compiler."""
    return False


def _jit_set_texpr_fuser_enabled(enabled: bool) -> bool:
    """``False``: there is no such compiler."""
    return False


def _jit_set_nvfuser_enabled(enabled: bool) -> bool:
    """``False``: there is no such compiler."""
    return False


def _jit_override_can_fuse_on_cpu(enabled: bool) -> None:
    """Nothing: there is no such compiler."""


def _jit_override_can_fuse_on_gpu(enabled: bool) -> None:
    """Nothing: there is no such compiler."""


def _jit_can_fuse_on_cpu() -> bool:
    """``False``: there is no such compiler."""
    return False


def _jit_can_fuse_on_gpu() -> bool:
    """``False``: there is no such compiler."""
    return False
