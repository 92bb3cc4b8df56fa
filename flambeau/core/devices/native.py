"""Native kernels: functions of a C++ library that XLA's programs for the CPU call.

The library is the optional package ``flambeau-kernels``. XLA looks a kernel up by its name when it
loads a program, so a program that calls one must not be loaded without it: the kernels belong to
the key of every program on disk.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import os

import jax

from flambeau.core.devices.compiler import only_cpu
from flambeau.core.devices.heap import keep_memory
from flambeau.core.support.warning import warn

# Before JAX starts its threads.
keep_memory()

#: The version of the library's interface: the meaning of kernel names and arguments.
_VERSION = 1

_NAMES = (
    "flambeau_adam",
    "flambeau_attention",
    "flambeau_attention_gradients",
    "flambeau_clip",
    "flambeau_convolution",
    "flambeau_convolution_filters",
    "flambeau_convolution_images",
    "flambeau_cross_entropy_gradient",
    "flambeau_cumsum",
    "flambeau_cumsum_gradient",
    "flambeau_log_softmax",
    "flambeau_log_softmax_gradient",
    "flambeau_log_sum",
    "flambeau_lstm",
    "flambeau_lstm_gradient",
    "flambeau_lstm_weights",
    "flambeau_max_pool",
    "flambeau_max_pool_gradient",
    "flambeau_sgd",
    "flambeau_softmax",
    "flambeau_softmax_gradient",
    "flambeau_standardize",
    "flambeau_standardize_channels",
    "flambeau_standardize_channels_gradients",
    "flambeau_standardize_gradients",
    "flambeau_standardize_groups",
    "flambeau_standardize_groups_gradients",
)


@functools.cache
def native_kernels() -> tuple[str, ...]:
    """The kernels that programs may call, sorted; ``()`` without the package.

    They are used if there are only CPUs and each process has one as its device, unless the
    environment sets ``FLAMBEAU_KERNELS=0``. XLA partitions a call over several processes along the
    batch dimension only, and gathers arrays that are sharded along other dimensions. So they are
    not used over several devices of one process, which serve to test programs.
    """
    library = _loaded()
    return () if library is None else tuple(each for each in _NAMES if hasattr(library, each))


@functools.cache
def native_version() -> str:
    """A digest of the library in use and the instructions that it uses; empty without it."""
    library = _loaded()
    if library is None:
        return ""
    library.flambeau_instructions.restype = ctypes.c_char_p
    with open(library._name, "rb") as file:
        digest = hashlib.file_digest(file, "blake2b").hexdigest()
    return f"{library.flambeau_instructions().decode()} {digest}"


@functools.cache
def _loaded() -> ctypes.CDLL | None:
    """The library, with its kernels registered in XLA."""
    if os.environ.get("FLAMBEAU_KERNELS") == "0" or not _has_one_cpu():
        return None
    try:
        flambeau_kernels = importlib.import_module("flambeau_kernels")
    except ModuleNotFoundError:
        return None
    if flambeau_kernels.VERSION != _VERSION:
        warn(
            f"flambeau-kernels has version {flambeau_kernels.VERSION} of its interface, and this "
            f"flambeau needs version {_VERSION}; its kernels are not used. Install the "
            "flambeau-kernels that belongs to this flambeau."
        )
        return None
    library = ctypes.CDLL(str(flambeau_kernels.library()))
    if jax.device_count() > 1 and not hasattr(library, "flambeau_takes_parts"):
        return None
    # An older library has fewer kernels.
    for name in filter(functools.partial(hasattr, library), _NAMES):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
        jax.ffi.register_ffi_target_as_batch_partitionable(name)
    return library


def _has_one_cpu() -> bool:
    return only_cpu() and jax.local_device_count() == 1
