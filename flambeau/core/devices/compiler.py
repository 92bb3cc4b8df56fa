"""The machine that programs are compiled for."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from flambeau.core.devices.device import available_devices
from flambeau.core.interpreter.sizes import Size


@functools.cache
def only_cpu() -> bool:
    """Whether the machine has no accelerator."""
    return all(each.startswith("cpu") for each in available_devices())


def one_cpu() -> bool:
    """Whether the machine's only device is one CPU."""
    return only_cpu() and jax.device_count() == 1


@functools.cache
def options_with_barriers() -> dict[str, str | bool] | None:
    """XLA's options for programs whose barriers stay until operations have been fused.

    By default XLA removes barriers before it fuses operations for CPUs.
    """
    if not only_cpu():
        return None
    given = re.search(r"--xla_disable_hlo_passes=(\S+)", os.environ.get("XLA_FLAGS", ""))
    passes = ["cse_barrier_expander", *(given.groups() if given else ())]
    return {"xla_disable_hlo_passes": ",".join(passes)}


def cpu_forms() -> bool:
    """Whether programs use the forms of `flambeau.ops.cpu_forms`.

    They do if the only device is one CPU, unless the environment sets ``FLAMBEAU_CPU_FORMS=0``. XLA
    partitions only the plain forms over several devices: it cannot insert the reduction across
    devices into a form whose addition it does not recognize. Inside `portable_forms` programs use
    the plain forms too.
    """
    return _takes_cpu_forms() and not is_portable()


@functools.cache
def _takes_cpu_forms() -> bool:
    return one_cpu() and os.environ.get("FLAMBEAU_CPU_FORMS") != "0"


def has_unknown_size(arrays: Iterable[object]) -> bool:
    """Whether an array has a size that `jax.export` leaves open."""
    return any(
        not isinstance(size, int | np.integer | Size)
        for each in arrays
        for size in getattr(each, "shape", ())
    )


# JAX keeps traces of one function apart by it.
_portable: Any = jax.make_user_context(False)


def is_portable() -> bool:
    """Whether programs traced now are for any machine, and perhaps for any size."""
    return _portable.value


def portable_forms() -> contextlib.AbstractContextManager[object]:
    """A block in which operators trace their plain forms.

    These are for every machine, and compare symbolic sizes (`jax.export.symbolic_shape`) only where
    the answer is the same for all sizes. There are no forms for CPUs, no native kernels, and none
    of cuDNN's.
    """
    return _portable(True)


@functools.cache
def cores() -> int:
    """The number of cores over which XLA spreads programs for the CPU."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def cuda_capability() -> tuple[int, int]:
    """The lowest compute capability among this machine's NVIDIA GPUs; ``(0, 0)`` without one."""
    if not any(each.startswith("cuda") for each in available_devices()):
        return 0, 0
    found = (each.compute_capability.split(".") for each in jax.local_devices(backend="cuda"))
    return min((int(major), int(minor)) for major, minor in found)
