"""Operands on several devices: a 0-d CPU tensor follows the others.

PyTorch has this rule for every operator. JAX instead combines operands that are not committed to a
device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.core import Tracer
from jax.sharding import SingleDeviceSharding

from flambeau.core.devices.device import CPU, device, from_jax_device
from flambeau.core.programs.deferred import ARRAYS
from flambeau.core.support.modes import modes
from flambeau.core.values.attributes import handle_on
from flambeau.core.values.cell import Cell
from flambeau.core.values.tensor import PLAIN_TYPES, Tensor
from flambeau.core.values.upload import upload


def place_of(array: Any) -> device | None:
    """The one device to which a concrete array is committed; ``None`` for all others."""
    if type(array) not in ARRAYS or not array.committed:
        return None
    sharding = array.sharding
    if type(sharding) is not SingleDeviceSharding:
        return None
    return from_jax_device(next(iter(sharding.device_set)))


def together(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """An operator's operands, with 0-d CPU tensors moved to the device of the others.

    Operands on several devices stay where they are, and so do arrays on a mesh.
    """
    first = None
    for each in inputs:
        if type(each) in PLAIN_TYPES and type(array := each._cell.array) in ARRAYS:
            if first is None:
                first = array.sharding
            elif array.sharding is not first and array.sharding != first:
                return _moved(inputs)
    return inputs


def _moved(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    places = [place_of(each._cell.array) if type(each) in PLAIN_TYPES else None for each in inputs]
    found = [(each, where) for each, where in zip(inputs, places, strict=True) if where]
    large = {where for each, where in found if each.ndim}
    targets = large or {where for _, where in found if where != CPU}
    if len(targets) != 1:
        return inputs
    (target,) = targets
    return tuple(
        _copy(each, target) if where not in (None, target) and where.type == "cpu" else each
        for each, where in zip(inputs, places, strict=True)
    )


def _copy(number: Tensor, target: device) -> Tensor:
    if number.requires_grad or modes.dual is not None:
        return number.to(target)
    # A fifth of the time of a copy by JAX.
    return handle_on(Cell(upload(np.asarray(number._read()), target.jax_device)), Tensor)


def loose(arrays: list[Any]) -> list[Any]:
    """Operands beside a tracer, whose device is unknown, with 0-d tensors uncommitted."""
    if not any(isinstance(each, Tracer) for each in arrays):
        return arrays
    return [
        np.asarray(each) if place_of(each) == CPU and each.ndim == 0 else each for each in arrays
    ]
