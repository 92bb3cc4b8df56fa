"""Tensors divided over the devices of a mesh."""

from flambeau._absent import Absent as _Absent
from flambeau.distributed.tensor.factories import *
from flambeau.distributed.tensor.modules import *
from flambeau.distributed.tensor.placements import *
from flambeau.distributed.tensor.spreading import *

__getattr__ = _Absent(__name__)
