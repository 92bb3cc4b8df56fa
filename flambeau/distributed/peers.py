"""Sending tensors from one process to another, through the first process's memory."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.checkpoint.elements import array_of
from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.arguments import member, place_of
from flambeau.distributed.errors import DistBackendError
from flambeau.distributed.process_group import ProcessGroup, group_or_world, store_of_world
from flambeau.distributed.store import Store
from flambeau.distributed.work import Work
from flambeau.ops.factories.from_data import from_numpy

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]

# The name of the part of a message with dtype and shape, and the maximum length shown.
_KIND, _LONGEST_KIND = "kind", 100
# The number of tensors sent in each direction.
_sent: dict[str, int] = {}
_received: dict[str, int] = {}


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to one process, which receives it with `recv`.

    The elements go through the memory of the first process, so use it for small and rare messages.
    It does not wait for the other process.

    Args:
        tensor: The tensor.
        dst: The process, by its rank in the world.
        group: The processes; by default all.
        tag: Distinguishes tensors to the same process.
        group_dst: The process by its rank in the group.

    Raises:
        ValueError: The process is this one.
    """
    found, place = member(group), place_of(group, dst, group_dst, "dst")
    if found is None:
        return
    if place == found.rank():
        raise ValueError("Invalid destination rank: dst is the rank of this process itself")
    key = _next_key(_sent, found, found.rank(), place, tag)
    store = _store()
    store.set(f"{key}/{_KIND}", _kind(tensor))
    store.put(key, array_of(tensor.detach()).tobytes())


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Wait for a tensor from another process, and write it into a given one.

    Args:
        tensor: A tensor of the shape and dtype of the sent one.
        src: The process, by its rank in the world.
        group: The processes; by default all.
        tag: See `send`.
        group_src: The process by its rank in the group.

    Returns:
        The rank of the process in the world; -1 in a process that is not in the group.

    Raises:
        DistBackendError: No tensor arrives within the timeout, or it has another shape or dtype.
        ValueError: The process is this one.
        NotImplementedError: No process is given.
    """
    work = _receiving(tensor, src, group, tag, group_src, "recv()")
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """`send` that returns a `Work`."""
    send(tensor, dst, group, tag, group_dst)
    return None if member(group) is None else Work()


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """`recv` that returns a `Work`, whose ``wait()`` writes the tensor."""
    return _receiving(tensor, src, group, tag, group_src, "irecv()")


class P2POp:
    """One operation of `batch_isend_irecv`: an `isend` or `irecv`.

    Args:
        op: `isend` or `irecv`.
        tensor: The tensor to send, or to receive into.
        peer: The other process, by its rank in the world.
        group: The processes; by default all.
        tag: See `send`.
        group_peer: The other process by its rank in the group.

    Raises:
        ValueError: ``op`` is another function, or the process is this one or does not exist.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op is not isend and op is not irecv:
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                f"``torch.distributed.irecv``, got {op!r:.80}"
            )
        group_or_world(group)
        if peer is None and group_peer is None:
            raise ValueError("P2POp needs the other process: peer= or group_peer=")
        place_of(group, peer, group_peer, "peer")
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag
        self.group_peer = group_peer

    def __repr__(self) -> str:
        peer = self.group_peer if self.peer is None else self.peer
        return f"P2POp({self.op.__name__}, peer={peer}, tensor={[*self.tensor.shape]})"


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Send and receive several tensors, in any order.

    Args:
        p2p_op_list: The operations, all of one group.

    Returns:
        A `Work` for each, to wait for.

    Raises:
        ValueError: A member is not a `P2POp`, the list is empty, or they are of different groups.

    >>> from flambeau import distributed
    >>> distributed.batch_isend_irecv([])
    Traceback (most recent call last):
    ValueError: Invalid ``p2p_op_list``: it is empty
    """
    if not p2p_op_list:
        raise ValueError("Invalid ``p2p_op_list``: it is empty")
    if not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to be of type ``torch.distributed.P2POp``"
        )
    if any(each.group is not p2p_op_list[0].group for each in p2p_op_list):
        raise ValueError("All ops need to use the same group")
    found: list[Work] = []
    for each in p2p_op_list:
        source = {"group_src" if each.op is irecv else "group_dst": each.group_peer}
        work = each.op(each.tensor, each.peer, group=each.group, tag=each.tag, **source)
        if work is not None:
            found.append(work)
    return found


class _Receiving(Work):
    """A tensor sent by another process, which may not have arrived."""

    def __init__(self, tensor: Tensor, group: ProcessGroup, place: int, key: str, name: str):
        super().__init__(group.ranks[place], [tensor])
        self._tensor = tensor
        self._group = group
        self._key = key
        self._name = name
        self._is_here = False

    def wait(self, timeout: dt.timedelta | None = None) -> bool:
        """Wait for the tensor, and write it; returns ``True``.

        Raises:
            DistBackendError: No tensor arrives within the timeout, or it has another shape or
                dtype.
        """
        if self._is_here:
            return True
        tensor, source, store = self._tensor, self._source, _store()
        assert self._group.channel is not None
        seconds = self._group.channel.seconds if timeout is None else timeout.total_seconds()
        dtype, shape = tensor.dtype.numpy, tuple(tensor.shape)
        size = dtype.itemsize * math.prod(shape)
        try:
            kind = store.wait_for(f"{self._key}/{_KIND}", seconds)
            fits = kind == _kind(tensor)
            content = store.get(self._key, seconds, size) if fits else b""
        except TimeoutError:
            raise DistBackendError(
                f"{self._name}: process {source} has sent nothing within {seconds:g} s"
            ) from None
        store.delete(self._key)
        self._is_here = True
        if not fits or len(content) != size:
            sent = kind.decode(errors="replace")[:_LONGEST_KIND]
            raise DistBackendError(
                f"{self._name}: process {source} has sent {sent}, but the tensor is "
                f"{_kind(tensor).decode()}"
            )
        with no_grad():
            tensor.detach().copy_(from_numpy(_elements(content, dtype).reshape(shape)))
        return True

    def synchronize(self) -> None:
        """Like `wait`."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether the tensor has arrived; if so, it is written."""
        return self._is_here or (_store().has(f"{self._key}/count") and self.wait())


def _kind(tensor: Tensor) -> bytes:
    """The dtype and the shape, which both sides must agree on."""
    return f"{tensor.dtype.numpy.name}{[*tensor.shape]}".encode()


def _elements(content: bytes, dtype: Any) -> Any:
    if dtype == np.bool_:
        # A byte of a bool is 0 or 1, whatever value was sent.
        return np.frombuffer(content, np.uint8) != 0
    return np.frombuffer(content, dtype).copy()


def _receiving(
    tensor: Tensor, src: int | None, group: Any, tag: int, group_src: int | None, name: str
) -> Work | None:
    found = member(group)
    if found is None:
        return None
    if src is None and group_src is None:
        raise NotImplementedError(f"{name} from any process: name the process by src=")
    place = place_of(group, src, group_src, "src")
    if place == found.rank():
        raise ValueError("Invalid source rank: src is the rank of this process itself")
    return _Receiving(
        tensor, found, place, _next_key(_received, found, place, found.rank(), tag), name
    )


def _store() -> Store:
    store = store_of_world()
    assert store is not None
    return store


def _next_key(
    counts: dict[str, int], group: ProcessGroup, source: int, target: int, tag: int
) -> str:
    path = f"message/{group.group_name}/{source}/{target}/{tag}"
    counts[path] = counts.get(path, 0) + 1
    return f"{path}/{counts[path]}"
