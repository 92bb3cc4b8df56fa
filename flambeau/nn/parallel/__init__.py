"""Modules on several devices, under PyTorch's names, where each computes on one.

Several devices work together by JAX's sharding, within one program.
"""

from flambeau._absent import Absent as _Absent
from flambeau.nn.parallel.data_parallel import *
from flambeau.nn.parallel.distributed import *
from flambeau.nn.parallel.scatter_gather import gather as gather
from flambeau.nn.parallel.scatter_gather import scatter as scatter

__getattr__ = _Absent(__name__)
