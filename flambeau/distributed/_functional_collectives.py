"""Out-of-place collectives with gradients, under the private name that packages import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.autograd import Function
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.arguments import size_of, split_sizes
from flambeau.distributed.collectives import all_to_all_single as _into

__all__ = ["all_to_all_single", "all_to_all_single_autograd", "wait_tensor"]


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor unchanged: readers of a result wait for it."""
    return tensor


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """Send each process of a group a part of a tensor, and return the received parts.

    Args:
        self: The tensor, split into parts along its first dimension.
        output_split_sizes: The lengths of the received parts; by default equal.
        input_split_sizes: The lengths of the sent parts; by default equal.
        group: See `flambeau.distributed.all_reduce`.
        tag: Without effect.

    Raises:
        ValueError: The lengths do not fit.
    """
    coming = output_split_sizes
    if coming is None:
        coming = split_sizes(self, None, size_of(group), "input")
    output = self.detach().new_zeros(sum(coming), *self.shape[1:])
    _into(output, self, coming, input_split_sizes, group)
    return output


def all_to_all_single_autograd(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """`all_to_all_single` with a gradient, which is sent back to the senders."""
    return _Exchange.apply(self, output_split_sizes, input_split_sizes, group)


class _Exchange(Function):
    @staticmethod
    def forward(ctx: Any, self: Tensor, coming: Any, going: Any, group: Any) -> Tensor:
        ctx.exchange = going, coming, group
        return all_to_all_single(self, coming, going, group)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        return all_to_all_single(grad_outputs[0], *ctx.exchange), None, None, None
