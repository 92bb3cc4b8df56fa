"""The rendezvous of processes: from arguments, PyTorch's environment variables, or JAX."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import socket
import time
import urllib.parse
from typing import NamedTuple

from flambeau.distributed.errors import DistNetworkError
from flambeau.distributed.stores import FileStore, Store

__all__: list[str] = []

_NEEDED = {
    "rank": "RANK",
    "world_size": "WORLD_SIZE",
    "address": "MASTER_ADDR",
    "port": "MASTER_PORT",
}
# Variables by which JAX finds the processes itself: Slurm, Open MPI, Cloud TPU.
_FOUND_BY_JAX = ("SLURM_JOB_ID", "OMPI_MCA_orte_hnp_uri", "TPU_WORKER_HOSTNAMES", "TPU_NAME")

_KEY = "flambeau"
# Seconds between two attempts to reach process 0.
_PAUSE = 0.1


class Meeting(NamedTuple):
    """The rendezvous of processes.

    Attributes:
        rank: The rank of this process.
        world_size: The number of processes.
        address: The machine of process 0, with a free port; empty for a single process.
        local_rank: The rank of this process on its machine, if each process has one device.
        file: The file through which they find each other, if any.
    """

    rank: int
    world_size: int
    address: str
    local_rank: int | None
    file: str = ""

    @property
    def bind_address(self) -> str | None:
        """The address on which process 0 listens, if not on all interfaces."""
        host, _, port = self.address.rpartition(":")
        own = own_address(host)
        if own is None:
            return None
        return f"[{own}]:{port}" if ":" in own else f"{own}:{port}"


def own_address(host: str) -> str | None:
    """This machine's address for a numeric host; ``None`` for any other host.

    A host name may resolve differently on each machine.
    """
    bare = "127.0.0.1" if host == "localhost" else host.strip("[]")
    try:
        address = ipaddress.ip_address(bare)
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((bare, 0))
    except (ValueError, OSError):
        return None
    return bare


def meeting(
    init_method: str | None, rank: int, world_size: int, seconds: float = 0.0
) -> Meeting | None:
    """The rendezvous of the processes; ``None`` if JAX finds the processes itself.

    Args:
        init_method: ``"env://"``, the default, ``"tcp://host:port"`` or ``"file:///path"``.
        rank: The rank of this process; negative to read it from the environment.
        world_size: The number of processes; negative to read it from the environment.
        seconds: How long a process waits for the others at a file.

    Raises:
        ValueError: A value is missing or no number, or the rank is not in the world.
        DistStoreError: Not all processes reach the file in time.
    """
    method = init_method or "env://"
    parts = urllib.parse.urlsplit(method)
    if parts.scheme not in ("env", "tcp", "file"):
        raise ValueError(
            f'No rendezvous handler for {method!r}: init_method is "env://", which reads RANK, '
            'WORLD_SIZE, MASTER_ADDR and MASTER_PORT, "tcp://host:port" or "file:///path"'
        )
    asked = {key: value[0] for key, value in urllib.parse.parse_qs(parts.query).items()}
    known = {name: os.environ.get(variable) for name, variable in _NEEDED.items()}
    if rank >= 0:
        known["rank"] = str(rank)
    if world_size >= 0:
        known["world_size"] = str(world_size)
    known.update((name, asked[name]) for name in ("rank", "world_size") if name in asked)
    if parts.scheme == "file":
        return _meeting_at_a_file(method, parts.path, known, seconds)
    if parts.scheme == "tcp":
        known["address"] = parts.netloc.rpartition(":")[0] or None
        known["port"] = parts.netloc.rpartition(":")[2] or None
    elif init_method is None and not any(known.values()) and _found_by_jax():
        return None
    return _checked(known)


def _meeting_at_a_file(
    method: str, path: str, known: dict[str, str | None], seconds: float
) -> Meeting:
    if not path:
        raise ValueError(f'init_method needs a path, "file:///path", got {method!r}')
    for name in ("rank", "world_size"):
        if known[name] is None:
            raise ValueError(
                f"Error initializing torch.distributed using file:// rendezvous: {name} parameter "
                "missing"
            )
    rank, world = _number("rank", known), _number("world_size", known)
    return meeting_at(FileStore(path), rank, world, seconds)._replace(file=path)


def meeting_at(store: Store, rank: int, world_size: int, seconds: float) -> Meeting:
    """The rendezvous of processes that share a store: process 0 announces it there.

    Raises:
        ValueError: The rank is not in the world.
        DistStoreError: Not all processes reach the store in time.
    """
    known: dict[str, str | None] = {
        "rank": str(rank),
        "world_size": str(world_size),
        "address": "",
        "port": "0",
    }
    rank, world, _, local, _ = _checked(known)
    if world == 1:
        return Meeting(rank, world, "", local)
    limit = dt.timedelta(seconds=seconds)
    # Each rendezvous of the same processes at the same store is a separate round.
    number = store.add(f"{_KEY}/come/{rank}", 1)
    key = f"{_KEY}/{number}"
    store.set(f"{key}/machine/{rank}", socket.gethostname())
    everyone = [f"{key}/machine/{each}" for each in range(world)]
    store.wait(everyone, limit)
    if rank == 0:
        machines = {store.get(each) for each in everyone}
        host = "127.0.0.1" if len(machines) == 1 else socket.getfqdn()
        store.set(f"{key}/address", f"{host}:{free_port()}")
    store.wait([f"{key}/address"], limit)
    return Meeting(rank, world, store.get(f"{key}/address").decode(), local)


def free_port() -> int:
    """A port of this machine on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _found_by_jax() -> bool:
    return any(each in os.environ for each in _FOUND_BY_JAX)


def _checked(known: dict[str, str | None]) -> Meeting:
    alone = known["world_size"] == "1"
    missing = [_NEEDED[name] for name, value in known.items() if value is None]
    if alone:
        missing = [each for each in missing if not each.startswith("MASTER")]
    if missing:
        raise ValueError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{missing[0]} expected, but not set; {', '.join(missing)} must be in the environment, "
            "as python -m flambeau.distributed.run puts it there, or be given by "
            'init_method="tcp://host:port", rank and world_size'
        )
    rank, world = _number("rank", known), _number("world_size", known)
    if world < 1:
        raise ValueError(f"world_size must be positive, got {world}")
    if not 0 <= rank < world:
        raise ValueError(f"rank must be between 0 and {world - 1}, got {rank}")
    host = known["address"] or ""
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    address = "" if alone else f"{host}:{_number('port', known)}"
    shared = (
        os.environ.get("LOCAL_RANK") if os.environ.get("LOCAL_WORLD_SIZE", "1") != "1" else None
    )
    return Meeting(rank, world, address, None if shared is None else int(shared))


def _number(name: str, known: dict[str, str | None]) -> int:
    try:
        return int(known[name] or "")
    except ValueError:
        raise ValueError(f"{_NEEDED[name]} must be a number, got {known[name]!r}") from None


def wait_for_listener(address: str, seconds: float) -> None:
    """Wait until a process listens at an address.

    Raises:
        DistNetworkError: No process does in time.
    """
    host, _, port = address.rpartition(":")
    end = time.monotonic() + seconds
    while True:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds):
                return
        except OSError as error:
            if time.monotonic() > end:
                raise DistNetworkError(
                    f"process 0 does not listen at {address} within {seconds:g} s ({error}); is it "
                    "running, and are MASTER_ADDR and MASTER_PORT the same in all processes?"
                ) from None
        time.sleep(_PAUSE)
