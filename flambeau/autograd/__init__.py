"""Gradients: the public face of the tape."""

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
