"""Modules on several devices, under PyTorch's names.

`DataParallel` computes on one device; `DistributedDataParallel`, on all devices of a mesh, is
imported on first use.
"""

from typing import Any

from flambeau._absent import absent
from flambeau.nn.parallel import distributed as distributed
from flambeau.nn.parallel.data_parallel import *
from flambeau.nn.parallel.scatter_gather import gather as gather
from flambeau.nn.parallel.scatter_gather import scatter as scatter


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        return distributed.DistributedDataParallel
    raise absent(__name__, name)
