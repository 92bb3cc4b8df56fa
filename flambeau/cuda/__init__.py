"""Queries about NVIDIA GPUs, under the names of `torch.cuda`.

JAX orders the programs on a device and manages its memory, so streams never wait and there is no
cache to manage.
"""

from importlib import import_module as _import_module
from typing import Any

from flambeau._absent import absent as _absent
from flambeau.cuda import memory as memory
from flambeau.cuda import random as random
from flambeau.cuda.devices import *
from flambeau.cuda.memory import *
from flambeau.cuda.random import *
from flambeau.cuda.streams import *

# Imported on first use.
_GRAPHS = {"CUDAGraph", "graph", "make_graphed_callables"}


def __getattr__(name: str) -> Any:
    if name in ("amp", "graphs", "nvtx"):
        return _import_module(f"flambeau.cuda.{name}")
    if name in _GRAPHS:
        return getattr(_import_module("flambeau.cuda.graphs"), name)
    if name == "_initialized":
        return _import_module("flambeau.cuda.devices").is_initialized()
    if name == "OutOfMemoryError":
        return _import_module("flambeau.core.devices.exhaustion").OutOfMemoryError
    if name.endswith("Tensor"):
        types = _import_module("flambeau.rare.tensor_types")
        if name in types.__all__:
            return types.on_cuda(name)
    raise _absent(__name__, name)
