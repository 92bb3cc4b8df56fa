"""Which compiler the programs are for."""

from __future__ import annotations

import functools

from flambeau.core.device import available_devices


@functools.cache
def only_cpu() -> bool:
    """Whether the machine has no accelerator."""
    return all(each.startswith("cpu") for each in available_devices())
