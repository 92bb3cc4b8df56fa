"""Modules, layers and everything they are made of."""

from importlib import import_module as _import_module
from typing import Any as _Any

from flambeau._absent import absent as _absent
from flambeau.nn import attention as attention
from flambeau.nn import compiled as _compiled  # noqa: F401 (tells `compile` what a module is)
from flambeau.nn import functional as functional
from flambeau.nn import init as init
from flambeau.nn import modules as modules
from flambeau.nn import utils as utils
from flambeau.nn.modules import *
from flambeau.nn.modules.utils import factory_kwargs as factory_kwargs
from flambeau.nn.parameter import Buffer as Buffer
from flambeau.nn.parameter import Parameter as Parameter
from flambeau.nn.parameter import UninitializedBuffer as UninitializedBuffer
from flambeau.nn.parameter import UninitializedParameter as UninitializedParameter


def __getattr__(name: str) -> _Any:
    # Few programs use them.
    if name in ("parallel", "quantized"):
        return _import_module(f"flambeau.nn.{name}")
    if name == "DataParallel":
        return _import_module("flambeau.nn.parallel").DataParallel
    raise _absent(__name__, name)
