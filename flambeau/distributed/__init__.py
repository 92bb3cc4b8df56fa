"""Models and tensors on several devices, in one process or several.

XLA needs only the shardings of tensors, and inserts the communication. `init_process_group`
connects processes; the collectives are for other exchanges of a script. May import `core`, `ops`,
`autograd`, `nn` and `checkpoint`.

- `device_mesh.py`: a `DeviceMesh` is a view of JAX's mesh, or of some of its axes. `tensor` places
  tensors on it. `data_parallel.py`, `fsdp` and `tensor.parallel` place parameters, and register
  hooks that constrain activations and gradients.
- `reducer.py`: without a mesh, each process computes with its own batch, and gradients are averaged
  at the end of a backward pass. `exchange.py`: such exchanges are programs too, and in a compiled
  step they are part of its program (`spanning.each_on_its_own`).
- Several processes run the same programs on arrays of which each has a part
  (`core/devices/spanning.py`). Before such a program is compiled, all exchange its digest
  (`store.py`), since different programs would wait for each other forever.
- `process_group.py` connects processes by JAX's coordination service. `rows.py` builds collectives
  from programs over one device of each process; `objects.py` sends other objects by the service.
- `supervision.py` ends a process when another has failed, is lost or does not come.
- `stores.py`, `tcp_store.py`: PyTorch's stores, which tell processes where to meet.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from flambeau._absent import Absent as _Absent
from flambeau.distributed import device_mesh as device_mesh
from flambeau.distributed.batches import global_batches as global_batches
from flambeau.distributed.collectives import all_gather as all_gather
from flambeau.distributed.collectives import all_gather_into_tensor as all_gather_into_tensor
from flambeau.distributed.collectives import all_reduce as all_reduce
from flambeau.distributed.collectives import all_to_all as all_to_all
from flambeau.distributed.collectives import all_to_all_single as all_to_all_single
from flambeau.distributed.collectives import barrier as barrier
from flambeau.distributed.collectives import broadcast as broadcast
from flambeau.distributed.collectives import gather as gather
from flambeau.distributed.collectives import monitored_barrier as monitored_barrier
from flambeau.distributed.collectives import reduce as reduce
from flambeau.distributed.collectives import reduce_scatter as reduce_scatter
from flambeau.distributed.collectives import reduce_scatter_tensor as reduce_scatter_tensor
from flambeau.distributed.collectives import scatter as scatter
from flambeau.distributed.device_mesh import DeviceMesh as DeviceMesh
from flambeau.distributed.device_mesh import init_device_mesh as init_device_mesh
from flambeau.distributed.errors import DistBackendError as DistBackendError
from flambeau.distributed.errors import DistError as DistError
from flambeau.distributed.errors import DistNetworkError as DistNetworkError
from flambeau.distributed.errors import DistStoreError as DistStoreError
from flambeau.distributed.objects import all_gather_object as all_gather_object
from flambeau.distributed.objects import broadcast_object_list as broadcast_object_list
from flambeau.distributed.objects import gather_object as gather_object
from flambeau.distributed.objects import scatter_object_list as scatter_object_list
from flambeau.distributed.peers import P2POp as P2POp
from flambeau.distributed.peers import batch_isend_irecv as batch_isend_irecv
from flambeau.distributed.peers import irecv as irecv
from flambeau.distributed.peers import isend as isend
from flambeau.distributed.peers import recv as recv
from flambeau.distributed.peers import send as send
from flambeau.distributed.process_group import Backend as Backend
from flambeau.distributed.process_group import GroupMember as GroupMember
from flambeau.distributed.process_group import ProcessGroup as ProcessGroup
from flambeau.distributed.process_group import destroy_process_group as destroy_process_group
from flambeau.distributed.process_group import get_backend as get_backend
from flambeau.distributed.process_group import (
    get_default_backend_for_device as get_default_backend_for_device,
)
from flambeau.distributed.process_group import get_global_rank as get_global_rank
from flambeau.distributed.process_group import get_group_rank as get_group_rank
from flambeau.distributed.process_group import get_node_local_rank as get_node_local_rank
from flambeau.distributed.process_group import get_process_group_ranks as get_process_group_ranks
from flambeau.distributed.process_group import get_rank as get_rank
from flambeau.distributed.process_group import get_world_size as get_world_size
from flambeau.distributed.process_group import group as group
from flambeau.distributed.process_group import init_process_group as init_process_group
from flambeau.distributed.process_group import is_available as is_available
from flambeau.distributed.process_group import is_gloo_available as is_gloo_available
from flambeau.distributed.process_group import is_initialized as is_initialized
from flambeau.distributed.process_group import is_mpi_available as is_mpi_available
from flambeau.distributed.process_group import is_nccl_available as is_nccl_available
from flambeau.distributed.process_group import is_torchelastic_launched as is_torchelastic_launched
from flambeau.distributed.process_group import is_ucc_available as is_ucc_available
from flambeau.distributed.process_group import is_xccl_available as is_xccl_available
from flambeau.distributed.process_group import new_group as new_group
from flambeau.distributed.reduce_op import ReduceOp as ReduceOp
from flambeau.distributed.stores import FileStore as FileStore
from flambeau.distributed.stores import HashStore as HashStore
from flambeau.distributed.stores import PrefixStore as PrefixStore
from flambeau.distributed.stores import Store as Store
from flambeau.distributed.tcp_store import TCPStore as TCPStore
from flambeau.distributed.work import Work as Work

__all__ = [
    "Backend", "DeviceMesh", "DistBackendError", "DistError", "DistNetworkError",
    "DistStoreError", "FileStore", "GroupMember", "HashStore", "P2POp", "PrefixStore",
    "ProcessGroup", "ReduceOp", "Store", "TCPStore", "Work", "all_gather",
    "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list",
    "destroy_process_group", "gather", "gather_object", "get_backend",
    "get_default_backend_for_device", "get_global_rank", "get_group_rank",
    "get_node_local_rank", "get_process_group_ranks", "get_rank", "get_world_size",
    "global_batches", "group", "init_device_mesh", "init_process_group", "irecv",
    "is_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
    "isend", "monitored_barrier", "new_group", "recv", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
]  # fmt: skip

_absent = _Absent(__name__)


def __getattr__(name: str) -> _Any:
    # Programs read these attributes without importing the modules.
    if name in ("algorithms", "distributed_c10d", "nn"):
        return _import_module(f"{__name__}.{name}")
    return _absent(name)
