"""Transformations of functions of tensors, and modules as functions.

Promise: JAX's transformations, with PyTorch's interface and gradients on the tape around them. May
import `core`, `random`, `ops`, `autograd`, `compile` and `nn`.

Reverse mode (`reverse.py`) runs on the tape, on copies of the arguments. Forward mode and `vmap`
are JAX's, on arrays: a `Capture` (`core/tape/transform.py`) replaces captured tensors that require
grad, and the whole transformation becomes one node of the tape with them among its inputs
(`recorded.py`). If the function runs again for a gradient, it draws the same random numbers.
`functional_call` under JAX's own transformations works in the same way, with JAX's gradients only.

A transformed function cannot write in place to tensors from outside, and neither can a compiled
function that it calls (`core/values/inside.py`).
"""

from flambeau._absent import Absent as _Absent
from flambeau.func.batch_norm_replacement import *
from flambeau.func.control_flow import scan as scan
from flambeau.func.forward import *
from flambeau.func.functional_call import *
from flambeau.func.rearrange import *
from flambeau.func.reverse import *
from flambeau.func.vmap import *

__getattr__: _Absent = _Absent(__name__)
