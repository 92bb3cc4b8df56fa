"""Hooks that average gradients, in half precision if wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau.distributed.collectives as collectives
from flambeau.core.support.dtype import bfloat16, float16
from flambeau.core.values.tensor import Tensor
from flambeau.distributed.arguments import size_of
from flambeau.distributed.reducer import GradBucket
from flambeau.futures import Future

__all__ = [
    "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook",
    "fp16_compress_wrapper",
]  # fmt: skip

_Hook = Callable[[Any, GradBucket], Future[Tensor]]


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The average of the gradients over the processes.

    Args:
        process_group: The processes; ``None`` for all.
        bucket: The gradients.
    """
    return _averaged(process_group, bucket.buffer())


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """`allreduce_hook`, in float16."""
    return fp16_compress_wrapper(allreduce_hook)(process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """`allreduce_hook`, in bfloat16."""
    return bf16_compress_wrapper(allreduce_hook)(process_group, bucket)


def fp16_compress_wrapper(hook: _Hook) -> _Hook:
    """A hook that calls ``hook`` with gradients in float16."""
    return _compressed(hook, float16)


def bf16_compress_wrapper(hook: _Hook) -> _Hook:
    """A hook that calls ``hook`` with gradients in bfloat16."""
    return _compressed(hook, bfloat16)


def _compressed(hook: _Hook, dtype: Any) -> _Hook:
    def compressed(state: Any, bucket: GradBucket) -> Future[Tensor]:
        before = bucket.buffer().dtype
        bucket.set_buffer(bucket.buffer().to(dtype))
        return hook(state, bucket).then(lambda future: _value_of(future).to(before))

    return compressed


def _averaged(group: Any, buffer: Tensor) -> Future[Tensor]:
    total = buffer / size_of(group)
    collectives.all_reduce(total, group=group)
    future: Future[Tensor] = Future()
    future.set_result(total)
    return future


def _value_of(future: Any) -> Any:
    value = future.value()
    return value[0] if isinstance(value, list) else value
