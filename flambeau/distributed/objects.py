"""Exchanging Python objects between processes, through the first process's memory.

The objects are pickled, as in PyTorch. Anyone who can reach the first process's port can write to
this memory, and so run code in the processes that read it. No other messages between processes are
pickled.
"""

from __future__ import annotations

import pickle
from collections.abc import MutableSequence
from typing import Any

from flambeau.distributed.arguments import check_count, member, place_of, rank_in, size_of
from flambeau.distributed.process_group import ProcessGroup

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]


def all_gather_object(object_list: MutableSequence[Any], obj: Any, group: Any = None) -> None:
    """Collect an object of each process in a list, in every process.

    Objects are pickled: a process trusts the others.

    Args:
        object_list: A list with one place for each process.
        obj: The object of this process.
        group: The processes; by default all.

    Raises:
        ValueError: The list has another length, or there is no process group.
        DistBackendError: Another process does not arrive within the timeout.

    >>> from flambeau import distributed
    >>> distributed.init_process_group(rank=0, world_size=1)
    >>> found = [None]
    >>> distributed.all_gather_object(found, {"step": 3})
    >>> found
    [{'step': 3}]
    >>> distributed.destroy_process_group()
    """
    found = member(group)
    if found is not None:
        check_count(object_list, found.size(), "object_list")
        given = _exchanged(found, obj, "all_gather_object()")
        object_list[:] = map(pickle.loads, given)


def gather_object(
    obj: Any,
    object_gather_list: MutableSequence[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """`all_gather_object`, into a list of one process.

    Args:
        obj: The object of this process.
        object_gather_list: A list with one place for each process; only in the receiving process.
        dst: The receiving process, by its rank in the world.
        group: The processes; by default all.
        group_dst: The process by its rank in the group.

    Raises:
        ValueError: The list is missing in the receiving process, or is given in another.
    """
    found, place = member(group), place_of(group, dst, group_dst, "dst")
    if found is None:
        return
    if (found.rank() == place) != bool(object_gather_list):
        raise ValueError("object_gather_list must be given in the process dst, and in no other")
    everything = _exchanged(found, obj, f"gather_object() to {place}")
    if object_gather_list:
        check_count(object_gather_list, found.size(), "object_gather_list")
        object_gather_list[:] = map(pickle.loads, everything)


def broadcast_object_list(
    object_list: MutableSequence[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Copy the objects in a list of one process into the lists of the others.

    Args:
        object_list: A list of the same length in every process.
        src: The sending process, by its rank in the world.
        group: The processes; by default all.
        device: Accepted for compatibility.
        group_src: The process by its rank in the group.

    Raises:
        ValueError: The lists have different lengths, or there is no process group.
        DistBackendError: Another process does not arrive within the timeout.
    """
    found, place = member(group), place_of(group, src, group_src, "src")
    if found is None:
        return
    mine = [*object_list] if found.rank() == place else None
    given = pickle.loads(_exchanged(found, mine, f"broadcast_object_list() from {place}")[place])
    if len(given) != len(object_list):
        raise ValueError(
            f"object_list has {len(object_list)} places, but process {place} gives {len(given)}"
        )
    object_list[:] = given


def scatter_object_list(
    scatter_object_output_list: MutableSequence[Any],
    scatter_object_input_list: MutableSequence[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Give each process one object of a list of one process.

    Args:
        scatter_object_output_list: A list that receives the object as its first member.
        scatter_object_input_list: An object for each process; only needed in the sending process.
        src: The sending process, by its rank in the world.
        group: The processes; by default all.
        group_src: The process by its rank in the group.

    Raises:
        ValueError: The input has another length, or the output is empty.
    """
    found, place = member(group), place_of(group, src, group_src, "src")
    if found is None:
        return
    if not scatter_object_output_list:
        raise ValueError("scatter_object_output_list must have a place for the object")
    is_source = found.rank() == place
    if is_source:
        check_count(scatter_object_input_list or [], size_of(group), "scatter_object_input_list")
    mine = scatter_object_input_list if is_source else None
    given = pickle.loads(_exchanged(found, mine, f"scatter_object_list() from {place}")[place])
    scatter_object_output_list[0] = given[rank_in(group)]


def _exchanged(group: ProcessGroup, mine: Any, operation: str) -> list[bytes]:
    """The pickled object of each process; reads only the requested ones."""
    sent = pickle.dumps(mine)
    return [sent] if group.channel is None else group.channel.exchange(sent, operation)
