"""Collectives through which gradients flow back to the processes."""

from __future__ import annotations

from typing import Any

import jax

from flambeau.autograd.function import Function
from flambeau.core.devices import spanning
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.arguments import member, size_of
from flambeau.distributed.exchange import exchanged, sums
from flambeau.distributed.process_group import ProcessGroup, group_or_world
from flambeau.distributed.reduce_op import ReduceOp

__all__ = ["all_gather", "all_reduce"]


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum or average of the tensors of all processes.

    The gradient of a process's tensor is that of the sum of the losses of all processes. It may be
    called in a compiled function.

    Args:
        tensor: Of the same shape and dtype in every process.
        op: ``SUM`` or ``AVG``.
        group: The processes; by default all.

    Raises:
        NotImplementedError: Another reduction.
        ValueError: There is no process group, or this process is not in it.
    """
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise NotImplementedError(
            f"distributed.nn.functional.all_reduce() has gradients for SUM and AVG, not {op}; use "
            "distributed.all_reduce() on a tensor without gradient"
        )
    found = _checked(group)
    total = _Exchange.apply(tensor, found, sums, sums)
    return total / size_of(found) if op is ReduceOp.AVG else total


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, in the order of their ranks; see `all_reduce`."""
    found = _checked(group)
    return _Exchange.apply(tensor, found, _gathered, _scattered).unbind()


class _Exchange(Function):
    """An exchange between processes, whose gradient is another one."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: ProcessGroup, forth: Any, back: Any) -> Tensor:
        ctx.given = group, back, forth
        return Tensor._wrap(exchanged(forth, [tensor._read()], group)[0])

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        return _Exchange.apply(*grad_outputs, *ctx.given), None, None, None


def _gathered(arrays: list[Any]) -> list[Any]:
    return [jax.lax.all_gather(each, spanning.PROCESSES) for each in arrays]


def _scattered(arrays: list[Any]) -> list[Any]:
    return [jax.lax.psum_scatter(each, spanning.PROCESSES) for each in arrays]


def _checked(group: Any) -> ProcessGroup:
    if member(group) is None:
        raise ValueError("this process is not in the group")
    return group_or_world(group)
