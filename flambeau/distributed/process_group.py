"""Process groups: connecting processes, and their ranks.

JAX connects the processes, and XLA's programs then run over the devices of all of them. A process
may own several devices, so the *rank* of a process is not that of a device in a `DeviceMesh`.
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import jax

from flambeau.core.devices import spanning
from flambeau.distributed import stores
from flambeau.distributed.constants import default_pg_timeout
from flambeau.distributed.errors import DistNetworkError
from flambeau.distributed.rendezvous import Meeting, meeting, meeting_at, wait_for_listener
from flambeau.distributed.store import Channel, Programs, Store
from flambeau.distributed.supervision import ends_after, leave, supervise

__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "destroy_process_group", "get_backend",
    "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank",
    "get_process_group_ranks", "get_rank", "get_world_size", "group", "init_process_group",
    "is_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "new_group",
]  # fmt: skip

# JAX aborts a process with SIGABRT after its own timeouts, which are longer by this many seconds.
_AFTER_OURS = 30
# A process without a heartbeat for this many seconds counts as dead; and a process that ends waits
# this long for the others. Shorter if the timeout is shorter.
_HEARTBEAT, _SHUTDOWN = 100, 300


class Backend(str):
    """The name of a backend: JAX chooses it by the devices, and a script may request it.

    >>> from flambeau.distributed import Backend
    >>> Backend("NCCL") == Backend.NCCL
    True
    """

    __slots__ = ()

    UNDEFINED = "undefined"
    GLOO = "gloo"
    MPI = "mpi"
    NCCL = "nccl"
    UCC = "ucc"
    XLA = "xla"

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend name must be a string, but got: {name!r}")
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """Some or all of the processes; created by `init_process_group` and `new_group`."""

    def __init__(self, ranks: Sequence[int], name: str, channel: Channel | None) -> None:
        self.ranks: tuple[int, ...] = tuple(ranks)
        self.group_name = name
        self.channel = channel
        #: Of the world: the groups of some of its processes that meshes have asked for.
        self.parts: dict[tuple[int, ...], ProcessGroup] = {}

    def rank(self) -> int:
        """The rank of this process in the group; -1 if it is not in the group."""
        me = _global_rank()
        return self.ranks.index(me) if me in self.ranks else -1

    def size(self) -> int:
        """The number of processes."""
        return len(self.ranks)

    def name(self) -> str:
        """The backend."""
        return str(get_backend(self))

    def __repr__(self) -> str:
        return f"ProcessGroup({[*self.ranks]})"


class _State:
    """The result of `init_process_group`."""

    world: ProcessGroup | None = None
    rank = 0
    store: Store | None = None
    seconds = 0.0
    groups = 0
    rounds = 0


_state = _State()


class _WorldOfGroups(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all processes; ``None`` before `init_process_group`."""
        return _state.world


class group(metaclass=_WorldOfGroups):
    """``group.WORLD`` is the group of all processes."""


class GroupMember(metaclass=_WorldOfGroups):
    """``GroupMember.WORLD`` is the group of all processes."""

    NON_GROUP_MEMBER = -100


def is_available() -> bool:
    """``True``: there are process groups."""
    return True


def is_initialized() -> bool:
    """Whether `init_process_group` has connected the processes."""
    return _state.world is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: dt.timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Connect this process with the others, before it creates tensors.

    Afterwards a mesh spans the devices of all processes, and the collectives of this module work
    between processes. If a process ends, or does not arrive at a collective, the others raise an
    error, or end with an error message, within the timeout. A world of one process needs no
    network.

    Args:
        backend: XLA chooses it: Gloo between CPUs, NCCL between GPUs. A name
            is checked against the devices.
        init_method: ``"env://"``, the default, reads ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and
            ``MASTER_PORT``, which ``python -m flambeau.distributed.run`` sets; or
            ``"tcp://host:port"``; or ``"file:///path"``, a file shared by all processes. On Cloud
            TPU, and with Slurm or Open MPI, JAX finds the processes without it.
        timeout: How long a process waits for the others; 30 minutes by default. A dead process is
            detected within 100 seconds, or within the timeout if that is shorter.
        world_size: The number of processes, if the environment does not set it.
        rank: The rank of this process, from 0, if the environment does not set it.
        store: The store through which processes find each other, with ``rank`` and ``world_size``,
            instead of ``init_method``.
        group_name: Accepted for compatibility, like the next two.
        pg_options: See above.
        device_id: See above.

    Raises:
        ValueError: It was called before, a variable is missing in the environment, the rank is not
            in the world, process 0 has another number of processes, or the backend does not exist.
        RuntimeError: The process has created tensors already, or there is no device for the
            backend.
        DistNetworkError: Process 0 does not listen within the timeout, or the others cannot be
            reached. If it waits for processes that never arrive, it ends with a message.
    """
    if _state.world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise ValueError("Cannot specify both init_method and store.")
    if store is not None and not isinstance(store, stores.Store):
        raise TypeError(
            "store must be a TCPStore, FileStore, HashStore or PrefixStore, got "
            f"{type(store).__name__}: {store!r:.80}"
        )
    names = _checked_backend(backend)
    seconds = (timeout or default_pg_timeout).total_seconds()
    if store is not None:
        found = meeting_at(store, rank, world_size, seconds)
    else:
        found = meeting(init_method, rank, world_size, seconds)
    if found is None or found.world_size > 1:
        _connect(found, seconds)
        _state.rank, count = jax.process_index(), jax.process_count()
    else:
        _state.rank, count = 0, 1
    if found is not None and found.file and found.rank == 0:
        # All processes have read it, and the next run starts with a new file.
        os.unlink(found.file)
    _state.seconds = seconds
    _state.rounds += 1
    if count > 1:
        _state.store, spanning.world = Store(_state.rank), count
        spanning.agree = Programs(_state.store, count, seconds).agree
        supervise(_state.store, count, seconds, min(seconds, _HEARTBEAT))
    if found is not None and found.world_size != count:
        raise ValueError(
            f"process {found.rank} is started in a world of {found.world_size} processes, but "
            f"process 0 in one of {count}; every process needs the same WORLD_SIZE"
        )
    _state.world = _group(range(count))
    if "nccl" in names and get_backend() != "nccl" and "gloo" not in names:
        destroy_process_group()
        raise RuntimeError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")


def _checked_backend(backend: str | None) -> set[str]:
    if backend is not None and not isinstance(backend, str):
        raise ValueError(f"Backend name must be a string, but got: {backend!r}")
    names = {each.rpartition(":")[2].lower() for each in (backend or "").split(",") if each}
    unknown = names - {"gloo", "nccl", "xla", "undefined"}
    if unknown:
        raise ValueError(
            f"Unknown backend {', '.join(sorted(unknown))!r}: XLA communicates, by Gloo between "
            "CPUs and NCCL between GPUs; leave out backend="
        )
    return names


def _connect(found: Meeting | None, seconds: float) -> None:
    if jax.distributed.is_initialized():
        return
    if hasattr(jax.config, "jax_enable_preemption_service"):
        # It would keep SIGTERM from ending the process.
        jax.config.update("jax_enable_preemption_service", False)
    limit = max(1, int(seconds))
    options: dict[str, Any] = {
        "initialization_timeout": limit + _AFTER_OURS,
        "heartbeat_timeout_seconds": min(limit, _HEARTBEAT) + _AFTER_OURS,
        "shutdown_timeout_seconds": min(limit, _SHUTDOWN),
    }
    if found is not None:
        options.update(
            coordinator_address=found.address,
            num_processes=found.world_size,
            process_id=found.rank,
            local_device_ids=found.local_rank,
            coordinator_bind_address=found.bind_address,
            cluster_detection_method="deactivate",
        )
        if found.rank:
            wait_for_listener(found.address, seconds)
    where = f" at {found.address}" if found else ""
    lost = f"not all processes have come to init_process_group(){where} within {seconds:g} s"
    try:
        with ends_after(seconds, lost):
            jax.distributed.initialize(**options)
    except RuntimeError as error:
        if "must be called before" in str(error):
            raise RuntimeError(
                "init_process_group() comes after this process has looked for its devices; call it "
                "first, before any tensor is made and before cuda.is_available()"
            ) from None
        raise DistNetworkError(
            f"the processes cannot be connected{where}: {str(error).partition(chr(10))[0]}"
        ) from error


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave the group. For the world, this disconnects the processes once all of them call it.

    While an exception is being handled, as in a ``finally``, it does not wait: the others end, and
    report the failure of this process.

    Raises:
        ValueError: There is no process group.
    """
    world = _world()
    if group is not None and group is not world:
        return
    _state.world = _state.store = spanning.agree = None
    spanning.world = 1
    if leave(sys.exc_info()[1]) and world.size() > 1 and jax.distributed.is_initialized():
        jax.distributed.shutdown()


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: dt.timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some processes, for collectives among them; all processes must call it.

    Args:
        ranks: The processes; by default all.
        timeout: See `init_process_group`; by default its own.
        backend: See `init_process_group`.
        pg_options: Accepted for compatibility, like the next three.
        use_local_synchronization: See above.
        group_desc: See above.
        device_id: See above.
        sort_ranks: Whether the ranks in the group follow the ranks in the world, or the order of
            ``ranks``.

    Returns:
        The group; ``GroupMember.NON_GROUP_MEMBER`` in processes that are not in it.

    Raises:
        ValueError: A rank is given twice, or there is no process group.
        RuntimeError: A rank is not in the world.
    """
    world = _world()
    _checked_backend(backend)
    chosen = [*world.ranks] if ranks is None else [int(each) for each in ranks]
    outside = [each for each in chosen if each not in world.ranks]
    if outside:
        raise RuntimeError(
            f"the new group's rank should be within the world_size set by init_process_group: "
            f"{outside} are not below {world.size()}"
        )
    if len({*chosen}) < len(chosen):
        raise ValueError(f"the new group names a process twice: {chosen}")
    _state.groups += 1
    if _state.rank not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    seconds = None if timeout is None else timeout.total_seconds()
    return _group(sorted(chosen) if sort_ranks else chosen, seconds)


def group_of(ranks: Iterable[int]) -> ProcessGroup:
    """The group of some processes, the same one at each call; only they need to call it.

    Raises:
        ValueError: There is no process group.
    """
    world, key = _world(), tuple(ranks)
    if key == world.ranks:
        return world
    if key not in world.parts:
        world.parts[key] = _group(key, name=f"{_state.rounds}.{'-'.join(map(str, key))}")
    return world.parts[key]


def _group(ranks: Sequence[int], seconds: float | None = None, name: str = "") -> ProcessGroup:
    name = name or f"{_state.rounds}.{_state.groups}"
    channel = None
    if _state.store is not None and len(ranks) > 1:
        channel = Channel(_state.store, f"group/{name}", ranks, seconds or _state.seconds)
    return ProcessGroup(ranks, name, channel)


def _world() -> ProcessGroup:
    if _state.world is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return _state.world


def _global_rank() -> int:
    return _state.rank


def group_or_world(group: Any) -> ProcessGroup:
    """The given group, or the group of all processes.

    Raises:
        ValueError: There is no process group.
        TypeError: ``group`` is not a group.
    """
    world = _world()
    if group is None:
        return world
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"group must be a ProcessGroup, got {type(group).__name__}: {group!r:.80}")
    return group


def store_of_world() -> Store | None:
    """The store of messages between processes; ``None`` in a world of one."""
    _world()
    return _state.store


def get_rank(group: Any = None) -> int:
    """The rank of this process in a group, by default that of all; -1 if it is not in the group.

    Raises:
        ValueError: There is no process group.
    """
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    return group_or_world(group).rank()


def get_world_size(group: Any = None) -> int:
    """The number of processes in a group, by default that of all; -1 outside of the group.

    Raises:
        ValueError: There is no process group.
    """
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    return group_or_world(group).size()


def get_backend(group: Any = None) -> Backend:
    """The backend that communicates between the devices: ``"gloo"``, ``"nccl"`` or ``"xla"``.

    Raises:
        ValueError: There is no process group.
    """
    group_or_world(group)
    return Backend({"cpu": "gloo", "gpu": "nccl"}.get(jax.default_backend(), "xla"))


def get_default_backend_for_device(device: Any) -> str:
    """The backend that communicates between devices of a type: see `get_backend`."""
    kind = str(getattr(device, "type", device)).partition(":")[0]
    return {"cpu": "gloo", "cuda": "nccl"}.get(kind, "xla")


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks in the world of the processes of a group."""
    return [*group_or_world(group).ranks]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank of a process in a group.

    Raises:
        ValueError: It is not in the group.
    """
    ranks = group_or_world(group).ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank of a process in the world.

    Raises:
        ValueError: The group has no such rank.
    """
    ranks = group_or_world(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank of this process on its machine, from ``LOCAL_RANK`` in the environment.

    Raises:
        RuntimeError: The variable is not set, and there is no ``fallback_rank``.
    """
    found = os.environ.get("LOCAL_RANK", fallback_rank)
    if found is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment: start processes by python -m "
            "flambeau.distributed.run, or pass fallback_rank"
        )
    return int(found)


def is_nccl_available() -> bool:
    """Whether JAX can use NVIDIA GPUs, between which NCCL communicates."""
    # JAX's devices must not be initialized before `init_process_group`.
    return any(importlib.util.find_spec(f"jax_cuda{each}_plugin") for each in (12, 13))


def is_gloo_available() -> bool:
    """``True``: Gloo communicates between CPUs."""
    return True


def _is_never_available() -> bool:
    """``False``: XLA communicates through other libraries."""
    return False


is_mpi_available = is_ucc_available = is_xccl_available = _is_never_available


def is_torchelastic_launched() -> bool:
    """Whether ``flambeau.distributed.run``, or PyTorch's own launcher, has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ
