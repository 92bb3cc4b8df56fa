"""Collectives between processes, on one tensor of each process.

The tensors of the processes are the rows of an array over one device of each process, from which an
XLA program computes the results. Compiled steps of a model on a mesh do not need these functions.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.distributed.arguments import (
    check_count,
    check_shape,
    checked_list,
    checked_op,
    member,
    place_of,
    rank_in,
    size_of,
    split_sizes,
)
from flambeau.distributed.errors import DistBackendError
from flambeau.distributed.reduce_op import ReduceOp
from flambeau.distributed.rows import (
    column,
    first_rows,
    into,
    part_of_row,
    reduced,
    reduced_part,
    row,
    rows,
    stacked,
)
from flambeau.distributed.work import Work

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "gather", "monitored_barrier", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "scatter",
]  # fmt: skip


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce the tensors of all processes, and write the result into each.

    Args:
        tensor: Of the same shape and dtype in every process.
        op: The reduction.
        group: The processes; by default all. Other processes do nothing.
        async_op: Return a `Work` to wait for.

    Raises:
        DistBackendError: Another process does not arrive within the timeout, calls another
            collective, or passes a tensor of another shape or dtype.
        TypeError: The tensor is on a mesh: it belongs to all processes already.
        ValueError: There is no process group, or the dtype has no average.

    >>> import flambeau
    >>> from flambeau import distributed
    >>> distributed.init_process_group(rank=0, world_size=1)
    >>> x = flambeau.tensor([1.0, 2.0])
    >>> distributed.all_reduce(x)
    >>> x
    tensor([1., 2.])
    >>> distributed.destroy_process_group()
    """
    return into(tensor, reduced, tensor, group, async_op, "all_reduce", checked_op(op, tensor))


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce the tensors of all processes, and write the result into that of one process.

    Args:
        tensor: See `all_reduce`, also for errors.
        dst: The process that gets the result, by its rank in the world.
        op: See `all_reduce`.
        group: See `all_reduce`.
        async_op: See `all_reduce`.
        group_dst: The process by its rank in the group.
    """
    place = place_of(group, dst, group_dst, "dst")
    mine = tensor if rank_in(group) == place else None
    name = f"reduce to {place}"
    return into(mine, reduced, tensor, group, async_op, name, checked_op(op, tensor))


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Write the tensor of one process into those of the others.

    Args:
        tensor: See `all_reduce`, also for errors.
        src: The sending process, by its rank in the world.
        group: See `all_reduce`.
        async_op: See `all_reduce`.
        group_src: The process by its rank in the group.
    """
    place = place_of(group, src, group_src, "src")
    return into(tensor, row, tensor, group, async_op, f"broadcast from {place}", place)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the tensors of all processes into one, concatenated or stacked.

    Args:
        output_tensor: A tensor for the elements of all inputs: its first dimension is that of an
            input times the number of processes, or it has one dimension more.
        input_tensor: See `all_reduce`, also for errors.
        group: See `all_reduce`.
        async_op: See `all_reduce`.

    Raises:
        ValueError: The output has another size.
    """
    check_shape(output_tensor, input_tensor, size_of(group), "output_tensor")
    return into(output_tensor, rows, input_tensor, group, async_op, "all_gather_into_tensor")


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the tensors of all processes into a list of tensors, one for each process.

    Args:
        tensor_list: A tensor for each process.
        tensor: See `all_reduce`, also for errors.
        group: See `all_reduce`.
        async_op: See `all_reduce`.

    Raises:
        ValueError: The list has another length.
    """
    check_count(tensor_list, size_of(group), "tensor_list")
    return into([*tensor_list], rows, tensor, group, async_op, "all_gather")


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Write the tensors of all processes into a list of tensors of one process.

    Args:
        tensor: See `all_reduce`, also for errors.
        gather_list: A tensor for each process; only in the receiving process.
        dst: The receiving process, by its rank in the world.
        group: See `all_reduce`.
        async_op: See `all_reduce`.
        group_dst: The process by its rank in the group.

    Raises:
        ValueError: The list is missing in the receiving process, is given in another, or has
            another length.
    """
    place = place_of(group, dst, group_dst, "dst")
    given = checked_list(gather_list, rank_in(group) == place, size_of(group), "gather_list")
    return into(given, rows, tensor, group, async_op, f"gather to {place}")


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Write one tensor of a list of one process into the tensor of each process.

    Args:
        tensor: The tensor that receives the part.
        scatter_list: A tensor for each process; only in the sending process.
        src: The sending process, by its rank in the world.
        group: See `all_reduce`, also for errors.
        async_op: See `all_reduce`.
        group_src: The process by its rank in the group.

    Raises:
        ValueError: The list is missing in the sending process, is given in another, or has another
            length.
    """
    place = place_of(group, src, group_src, "src")
    given = checked_list(scatter_list, rank_in(group) == place, size_of(group), "scatter_list")
    whole = stacked(given or [tensor] * size_of(group), "scatter")
    return into(tensor, part_of_row, whole, group, async_op, f"scatter from {place}", place)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the tensors of all processes, and give each process a part of the result.

    Args:
        output: The tensor that receives the part.
        input: The parts for all processes, concatenated along the first dimension, or stacked.
        op: See `all_reduce`, also for errors.
        group: See `all_reduce`.
        async_op: See `all_reduce`.

    Raises:
        ValueError: The sizes do not fit.
    """
    size = size_of(group)
    check_shape(input, output, size, "input")
    parts = input.detach().reshape(size, *output.shape)
    name = "reduce_scatter_tensor"
    return into(output, reduced_part, parts, group, async_op, name, checked_op(op, input))


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """`reduce_scatter_tensor` with a list of tensors, one for each process."""
    check_count(input_list, size_of(group), "input_list")
    parts = stacked(input_list, "reduce_scatter")
    name = "reduce_scatter"
    return into(output, reduced_part, parts, group, async_op, name, checked_op(op, output))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Send each process a part of the input, and receive a part of the output from each.

    Args:
        output: The tensor for the received parts, concatenated along its first dimension.
        input: The tensor, split into parts along its first dimension.
        output_split_sizes: The lengths of the received parts; by default equal.
        input_split_sizes: The lengths of the sent parts; by default equal.
        group: See `all_reduce`, also for errors.
        async_op: See `all_reduce`.

    Raises:
        ValueError: The lengths do not fit.
    """
    size = size_of(group)
    going = split_sizes(input, input_split_sizes, size, "input")
    coming = split_sizes(output, output_split_sizes, size, "output")
    parts = output.detach().split(coming), input.detach().split(going)
    return all_to_all(*parts, group, async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Send each process a tensor of a list, and receive one from each.

    Args:
        output_tensor_list: A tensor for each process, of the shape that the process sends.
        input_tensor_list: A tensor for each process.
        group: See `all_reduce`, also for errors.
        async_op: See `all_reduce`.

    Raises:
        ValueError: The lists have another length.
        DistBackendError: A process expects another number of elements than it receives.
    """
    size = size_of(group)
    check_count(input_tensor_list, size, "input_tensor_list")
    check_count(output_tensor_list, size, "output_tensor_list")
    going = [each.numel() for each in input_tensor_list]
    coming = [each.numel() for each in output_tensor_list]
    # All parts are sent with the length of the longest.
    given = first_rows(input_tensor_list, _longest(going, coming, group), "all_to_all")
    return into([*output_tensor_list], column, given, group, async_op, "all_to_all")


def _longest(going: list[int], coming: list[int], group: Any) -> int:
    """The greatest number of elements that one process sends to another."""
    found = member(group)
    if found is None:
        return max(going)
    mine = json.dumps((going, coming)).encode()
    channel, me = found.channel, found.rank()
    all_sizes = [mine] if channel is None else channel.exchange(mine, "all_to_all()")
    sizes = [json.loads(each) for each in all_sizes]
    sent = [its_going[me] for its_going, _ in sizes]
    if sent != coming:
        raise DistBackendError(
            f"all_to_all(): process {me} expects {coming} elements from the processes in their "
            f"order, but they send {sent}"
        )
    return max(max(its_going) for its_going, _ in sizes)


def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: dt.timedelta | None = None,
) -> Work | None:
    """Wait until all processes have arrived.

    Args:
        group: The processes; by default all.
        async_op: Return a completed `Work`.
        device_ids: Accepted for compatibility.
        timeout: The time to wait; by default the group's timeout.

    Raises:
        DistBackendError: A process does not arrive within the timeout; the message names it.
        ValueError: There is no process group.
    """
    found = member(group)
    if found is not None and found.channel is not None:
        seconds = None if timeout is None else timeout.total_seconds()
        found.channel.exchange(b"", "barrier()", seconds)
    return Work() if async_op else None


def monitored_barrier(
    group: Any = None, timeout: dt.timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """`barrier`, which always names the processes that do not arrive."""
    barrier(group, timeout=timeout)
