"""Gradients: the public interface of the tape.

Promise: PyTorch's functions and classes on the tape of `core`. May import `core`, `random` and
`ops`.

- `backward.py` starts the engine; `grad_mode.py` switches recording.
- `function.py` has custom Functions, with their context, their node, second derivatives through
  saved tensors, ``jvp``, ``vmap``, and gradients inside JAX's transformations in files beside it.
- `forward_ad.py` opens dual levels and gives tensors tangents; `core/tape/forward.py` passes these
  on. A transformation of `func` is one operator for a level around it: its tangent is `jax.jvp` of
  the whole. `func.jvp` itself does not use levels, since JAX's transformations nest.
- `functional.py` has Jacobians and Hessians by the tape; `gradcheck.py`, comparisons with finite
  differences.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from flambeau._absent import Absent as _Absent
from flambeau.autograd import forward_ad as forward_ad
from flambeau.autograd import functional as functional
from flambeau.autograd import graph as graph
from flambeau.autograd.anomaly_mode import *
from flambeau.autograd.backward import *
from flambeau.autograd.function import *
from flambeau.autograd.grad_mode import *
from flambeau.autograd.grad_mode import is_multithreading_enabled as is_multithreading_enabled
from flambeau.autograd.grad_mode import set_multithreading_enabled as set_multithreading_enabled
from flambeau.autograd.gradcheck import *
from flambeau.autograd.variable import *


class _Rest(_Absent):
    """The module's `__getattr__`: imports `profiler`."""

    def __call__(self, name: str) -> _Any:
        if name == "profiler":
            return _import_module("flambeau.autograd.profiler")
        return super().__call__(name)


__getattr__: _Rest = _Rest(__name__)
