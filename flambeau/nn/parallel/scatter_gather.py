"""Splitting batches for several devices, and concatenating them again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flambeau.core.devices.device import as_device, device
from flambeau.core.values.tensor import Tensor
from flambeau.nn.common_types import Args, DeviceLike, Kwargs
from flambeau.ops.shapes.shape import cat
from flambeau.ops.shapes.splitting import chunk

__all__ = ["gather", "is_namedtuple", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: object) -> bool:
    """Whether ``obj`` is a named tuple."""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def _place(target: DeviceLike) -> device:
    return as_device(f"cuda:{target}" if isinstance(target, int) else target)


def scatter(inputs: Any, target_gpus: Sequence[DeviceLike], dim: int = 0) -> list[Any]:
    """The parts of a batch, one for each device.

    Args:
        inputs: Tensors in tuples, lists and dictionaries, which are split along ``dim``; other
            values are in all parts.
        target_gpus: The devices, or the indices of GPUs.
        dim: The dimension of the batch.

    Returns:
        As many parts as there are devices, or fewer if a tensor has fewer elements in ``dim``.

    >>> import flambeau
    >>> from flambeau.nn.parallel import scatter
    >>> scatter({"x": flambeau.arange(4), "scale": 2}, ["cpu", "cpu"])
    [{'x': tensor([0, 1]), 'scale': 2}, {'x': tensor([2, 3]), 'scale': 2}]
    """
    count = len(target_gpus)
    if isinstance(inputs, Tensor):
        parts = chunk(inputs, count, dim)
        return [part.to(_place(target)) for part, target in zip(parts, target_gpus, strict=False)]
    if is_namedtuple(inputs):
        return [type(inputs)(*each) for each in _together(inputs, target_gpus, dim)]
    if isinstance(inputs, tuple | list) and inputs:
        return [type(inputs)(each) for each in _together(inputs, target_gpus, dim)]
    if isinstance(inputs, dict) and inputs:
        parts = _together(inputs.values(), target_gpus, dim)
        return [type(inputs)(zip(inputs, each, strict=True)) for each in parts]
    return [inputs] * count


def _together(members: Iterable[Any], target_gpus: Sequence[DeviceLike], dim: int) -> list[Args]:
    return [*zip(*[scatter(each, target_gpus, dim) for each in members], strict=False)]


def scatter_kwargs(
    inputs: Args,
    kwargs: Kwargs | None,
    target_gpus: Sequence[DeviceLike],
    dim: int = 0,
) -> tuple[tuple[Args, ...], tuple[Kwargs, ...]]:
    """The parts of positional and keyword arguments; see `scatter`."""
    by_order = scatter(inputs, target_gpus, dim) if inputs else []
    by_name = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(by_order), len(by_name))
    by_order += [()] * (count - len(by_order))
    by_name += [{} for _ in range(count - len(by_name))]
    return tuple(by_order), tuple(by_name)


def gather(outputs: Sequence[Any], target_device: DeviceLike, dim: int = 0) -> Any:
    """The concatenated parts of a batch, on one device; the inverse of `scatter`.

    Args:
        outputs: The parts: tensors, or tuples, lists and dictionaries of tensors.
        target_device: The device, or the index of a GPU.
        dim: The dimension of the batch.

    Raises:
        ValueError: Dictionaries have different keys.
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        where = _place(target_device)
        # Numbers become a vector.
        return cat([(x if x.ndim else x.reshape(1)).to(where) for x in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(set(each) != set(first) for each in outputs):
            raise ValueError("all dictionaries that are gathered must have the same keys")
        return type(first)((k, gather([d[k] for d in outputs], target_device, dim)) for k in first)
    members = [gather(each, target_device, dim) for each in zip(*outputs, strict=True)]
    return type(first)(*members) if is_namedtuple(first) else type(first)(members)
