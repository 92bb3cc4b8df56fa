"""Which machine the programs are compiled for."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from flambeau.core.device import available_devices
from flambeau.core.modes import modes


@functools.cache
def only_cpu() -> bool:
    """Whether the machine has no accelerator."""
    return all(each.startswith("cpu") for each in available_devices())


def one_cpu() -> bool:
    """Whether there is only a CPU, and it is one device."""
    return only_cpu() and jax.device_count() == 1


def cpu_forms() -> bool:
    """Whether programs take the forms of `flambeau.ops.cpu_forms`.

    They do where there is only a CPU that is one device, unless ``FLAMBEAU_CPU_FORMS=0`` stands in
    the environment. Over several devices XLA divides the plain forms only: it cannot add up what
    devices have if it does not know the addition. Sizes that vary (`jax.export.symbolic_shape`)
    take the plain forms too: they are for a CPU that may be another one, and cannot be compared.
    """
    return _takes_cpu_forms() and not modes.sizes_vary


@functools.cache
def _takes_cpu_forms() -> bool:
    return one_cpu() and os.environ.get("FLAMBEAU_CPU_FORMS") != "0"


def has_unknown_size(arrays: Iterable[Any]) -> bool:
    """Whether an array has a size that `jax.export` leaves open."""
    return any(
        not isinstance(size, int | np.integer)
        for each in arrays
        for size in getattr(each, "shape", ())
    )


@contextlib.contextmanager
def forms_for_every_size() -> Iterator[None]:
    """A block in which operators ask nothing of sizes but what all sizes answer alike."""
    modes.sizes_vary = True
    try:
        yield
    finally:
        modes.sizes_vary = False


@functools.cache
def cores() -> int:
    """Over how many cores XLA spreads programs for the CPU."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def cuda_capability() -> tuple[int, int]:
    """The least compute capability of the GPUs of NVIDIA's here; ``(0, 0)`` if there are none."""
    if not any(each.startswith("cuda") for each in available_devices()):
        return 0, 0
    found = (each.compute_capability.split(".") for each in jax.local_devices(backend="cuda"))
    return min((int(major), int(minor)) for major, minor in found)
