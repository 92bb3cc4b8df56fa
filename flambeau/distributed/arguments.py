"""Checks of the arguments of collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.distributed.process_group import ProcessGroup, group_or_world
from flambeau.distributed.reduce_op import ReduceOp

__all__: list[str] = []


def member(group: Any) -> ProcessGroup | None:
    """The group, if this process is in it."""
    if isinstance(group, int):  # NON_GROUP_MEMBER
        return None
    found = group_or_world(group)
    return found if found.rank() >= 0 else None


def rank_in(group: Any) -> int:
    """The rank of this process in a group; -1 if it is not in the group."""
    found = member(group)
    return -1 if found is None else found.rank()


def size_of(group: Any) -> int:
    """The number of processes of a group; 1 in a process that is not in it."""
    found = member(group)
    return 1 if found is None else found.size()


def place_of(group: Any, rank: int | None, group_rank: int | None, name: str) -> int:
    """The rank in a group of a process given by its rank in the world or in the group.

    Raises:
        ValueError: Both are given, or there is no such process.
    """
    found = member(group)
    if found is None:
        return -2
    if rank is not None and group_rank is not None:
        raise ValueError(f"Can't specify both group_{name} and {name}")
    if group_rank is None:
        rank = 0 if rank is None else rank
        if rank not in found.ranks:
            raise ValueError(f"{name} must be one of the processes {[*found.ranks]}, got {rank}")
        return found.ranks.index(rank)
    if not 0 <= group_rank < found.size():
        raise ValueError(f"group_{name} must be below {found.size()}, got {group_rank}")
    return group_rank


def checked_op(op: Any, tensor: Tensor) -> ReduceOp:
    """``op``, if it can reduce the elements of a tensor.

    Raises:
        ValueError: It cannot.
        TypeError: ``tensor`` is not a tensor.
    """
    if not isinstance(op, ReduceOp):
        raise ValueError(f"op must be a ReduceOp, got {op!r}")
    if not isinstance(tensor, Tensor):
        raise TypeError(f"collectives take tensors, got {type(tensor).__name__}: {tensor!r:.80}")
    is_whole = not (tensor.is_floating_point() or tensor.is_complex())
    if op is ReduceOp.AVG and is_whole:
        raise ValueError(f"ReduceOp.AVG needs a floating-point dtype, got {tensor.dtype}")
    if op in (ReduceOp.MIN, ReduceOp.MAX) and tensor.is_complex():
        raise ValueError(f"complex numbers have no order: {op} does not support {tensor.dtype}")
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and not is_whole:
        raise ValueError(f"{op} needs an integer or bool dtype, got {tensor.dtype}")
    return op


def check_shape(whole: Tensor, part: Tensor, size: int, name: str) -> None:
    """Check that a tensor has room for the parts of all processes, concatenated or stacked.

    Raises:
        ValueError: It has another shape, or another dtype.
    """
    shape, unit = tuple(whole.shape), tuple(part.shape)
    joined = (size * unit[0], *unit[1:]) if unit else (size,)
    if shape not in (joined, (size, *unit)):
        raise ValueError(
            f"{name} must have the shape {[*joined]} or {[size, *unit]} for {size} processes, got "
            f"{[*shape]}"
        )
    if whole.dtype is not part.dtype:
        raise ValueError(f"{name} has dtype {whole.dtype}, but the other tensor {part.dtype}")


def check_count(tensors: Sequence[Tensor], size: int, name: str) -> None:
    """Check that there is a tensor for each process.

    Raises:
        ValueError: There are more or fewer.
    """
    if len(tensors) != size:
        raise ValueError(
            f"{name} must have a tensor for each of {size} processes, got {len(tensors)}"
        )


def checked_list(given: Any, is_wanted: bool, size: int, name: str) -> list[Any] | None:
    """The tensors for all processes, which only one process passes.

    Raises:
        ValueError: It does not, another process does, or their number is wrong.
    """
    if is_wanted and given is None:
        raise ValueError(f"Argument ``{name}`` must be specified in the process at the centre")
    if not is_wanted and given:
        raise ValueError(f"Argument ``{name}`` must NOT be specified in the other processes")
    if not is_wanted:
        return None
    check_count(given, size, name)
    return [*given]


def split_sizes(tensor: Tensor, sizes: Any, size: int, name: str) -> list[int]:
    """The lengths of the parts of a tensor along its first dimension.

    Raises:
        ValueError: They do not add up to its length.
    """
    length = tensor.shape[0]
    if not sizes:
        if length % size:
            raise ValueError(
                f"{name} of length {length} is not divisible by {size} processes; pass "
                f"{name}_split_sizes"
            )
        return [length // size] * size
    if len(sizes) != size or sum(sizes) != length:
        raise ValueError(
            f"{name}_split_sizes must be {size} lengths that add up to {length}, got {[*sizes]}"
        )
    return [*sizes]
