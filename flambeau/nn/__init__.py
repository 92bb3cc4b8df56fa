"""Modules, layers and everything they are made of."""

from flambeau._absent import Absent as _Absent
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

__getattr__ = _Absent(__name__)
