"""Transformations of functions of tensors, and modules as functions."""

from flambeau._absent import Absent as _Absent
from flambeau.func.batch_norm_replacement import *
from flambeau.func.forward import *
from flambeau.func.functional_call import *
from flambeau.func.rearrange import *
from flambeau.func.reverse import *
from flambeau.func.vmap import *

__getattr__: _Absent = _Absent(__name__)
