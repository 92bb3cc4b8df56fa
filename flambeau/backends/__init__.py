"""Settings of libraries that PyTorch calls: those that have an equivalent in XLA are applied."""

import sys as _sys
import types as _types
from contextlib import AbstractContextManager as _Context
from importlib import import_module as _import_module
from typing import Any as _Any

from flambeau._absent import Absent as _Absent
from flambeau.backends import cpu as cpu
from flambeau.backends import cuda as cuda
from flambeau.backends.settings import changed as _changed
from flambeau.backends.settings import exchange as _exchange

__getattr__: _Absent = _Absent(__name__)

cudnn: _Any = _import_module("flambeau.backends.cudnn")
cusparselt: _Any = _import_module("flambeau.backends.cusparselt")
kleidiai: _Any = _import_module("flambeau.backends.kleidiai")
mha: _Any = _import_module("flambeau.backends.mha")
miopen: _Any = _import_module("flambeau.backends.miopen")
mkl: _Any = _import_module("flambeau.backends.mkl")
mkldnn: _Any = _import_module("flambeau.backends.mkldnn")
mps: _Any = _import_module("flambeau.backends.mps")
nnpack: _Any = _import_module("flambeau.backends.nnpack")
openmp: _Any = _import_module("flambeau.backends.openmp")
opt_einsum: _Any = _import_module("flambeau.backends.opt_einsum")
quantized: _Any = _import_module("flambeau.backends.quantized")


def set_flags(_fp32_precision: str = "none") -> tuple[_Any, ...]:
    """Set ``fp32_precision``; returns the previous value."""
    return _exchange(_sys.modules[__name__], fp32_precision=_fp32_precision)


def flags(fp32_precision: str = "none") -> _Context[None]:
    """A context manager under which ``fp32_precision`` has this value."""
    return _changed(_sys.modules[__name__], fp32_precision=fp32_precision)


class _Settings(_types.ModuleType):
    @property
    def fp32_precision(self) -> str:
        """The precision of float32 products and convolutions."""
        return cuda.matmul.fp32_precision

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        cuda.matmul.fp32_precision = value


_sys.modules[__name__].__class__ = _Settings
