"""Settings of libraries that PyTorch calls: those that say something about XLA are followed."""

import sys as _sys
import types as _types
from contextlib import AbstractContextManager as _Context
from typing import Any as _Any

from flambeau._absent import Absent as _Absent
from flambeau.backends import cpu as cpu
from flambeau.backends import cuda as cuda
from flambeau.backends import cudnn as cudnn
from flambeau.backends import cusparselt as cusparselt
from flambeau.backends import kleidiai as kleidiai
from flambeau.backends import mha as mha
from flambeau.backends import miopen as miopen
from flambeau.backends import mkl as mkl
from flambeau.backends import mkldnn as mkldnn
from flambeau.backends import mps as mps
from flambeau.backends import nnpack as nnpack
from flambeau.backends import openmp as openmp
from flambeau.backends import opt_einsum as opt_einsum
from flambeau.backends import quantized as quantized
from flambeau.backends.settings import changed as _changed
from flambeau.backends.settings import exchange as _exchange

__getattr__: _Absent = _Absent(__name__)


def set_flags(_fp32_precision: str = "none") -> tuple[_Any, ...]:
    """Set ``fp32_precision``; gives what it was before."""
    return _exchange(_sys.modules[__name__], fp32_precision=_fp32_precision)


def flags(fp32_precision: str = "none") -> _Context[None]:
    """A block in which ``fp32_precision`` is this."""
    return _changed(_sys.modules[__name__], fp32_precision=fp32_precision)


class _Settings(_types.ModuleType):
    @property
    def fp32_precision(self) -> str:
        """How float32 is multiplied, in products and convolutions."""
        return cuda.matmul.fp32_precision

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        cuda.matmul.fp32_precision = value


_sys.modules[__name__].__class__ = _Settings
