"""The states of accelerators' random number generators, for recomputation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax

from flambeau.core.devices.device import device
from flambeau.core.values.tensor import Tensor
from flambeau.random.generator import generator_for

__all__ = ["get_device_states", "set_device_states"]

_WITHOUT_STATES = ("cpu", "meta")


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The accelerators of the tensors among some arguments, and their generators' states.

    >>> import flambeau
    >>> from flambeau.utils.checkpoint import get_device_states
    >>> get_device_states(flambeau.ones(2), [flambeau.ones(3)])
    ([], [])

    Args:
        *args: Tensors, containers of them, and any other values.

    Returns:
        The indices of the devices, without duplicates, and the state of the default generator of
        each.
    """
    leaves = jax.tree.leaves(args, is_leaf=lambda each: isinstance(each, Tensor))
    places = [each.device for each in leaves if isinstance(each, Tensor)]
    found = {each.index or 0: each for each in places if each.type not in _WITHOUT_STATES}
    return list(found), [generator_for(each).get_state() for each in found.values()]


def set_device_states(
    devices: Iterable[int], states: Iterable[Tensor], *, device_type: str | None = None
) -> None:
    """Set the states of the default generators of accelerators.

    Args:
        devices: The indices of the devices.
        states: The state for each, from `get_device_states`.
        device_type: The type of the devices, by default ``"cuda"``.
    """
    if device_type == "meta":
        return
    for number, state in zip(devices, states, strict=True):
        generator_for(device(device_type or "cuda", number)).set_state(state)
