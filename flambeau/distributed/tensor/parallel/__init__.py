"""Layers sharded over devices, in PyTorch's styles."""

from flambeau._absent import Absent as _Absent
from flambeau.distributed.tensor.parallel.styles import *

__getattr__: _Absent = _Absent(__name__)
