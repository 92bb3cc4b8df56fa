"""Tensors sharded over the devices of a mesh.

A tensor on several devices has no class of its own: its Cell holds an array on JAX's mesh, and
`DTensor` is an ``isinstance`` check. Placements are another notation for a `PartitionSpec`
(`placements.py`). One function moves tensors to placements (`spreading.py`); in a compiled function
it is a sharding constraint. On the meta device the placement waits in the Cell's value, with the
plan. Written and loaded values keep the placement of the former ones; XLA chooses the sharding of
results.
"""

from flambeau._absent import Absent as _Absent
from flambeau.distributed.tensor.factories import *
from flambeau.distributed.tensor.modules import *
from flambeau.distributed.tensor.placements import *
from flambeau.distributed.tensor.spreading import *

__getattr__: _Absent = _Absent(__name__)
