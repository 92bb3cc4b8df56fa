"""Copying NumPy arrays to devices by the fastest path."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from flambeau.core.devices import spanning
from flambeau.core.programs import forks
from flambeau.core.support.jax_private import batched_device_put
from flambeau.core.support.modes import modes
from flambeau.core.types import Args, Contents, JaxDevice
from flambeau.core.values.cell import abstract, is_abstract


def upload(array: np.ndarray, where: JaxDevice) -> jax.Array:
    """A NumPy array as a JAX array that is committed to a device.

    Every array of the library is committed, since XLA compiles a program again for operands that
    are not.

    Args:
        array: May share its memory with the result, so it must not be written to afterwards.
        where: The JAX device.
    """
    forks.check()
    if batched_device_put is None:
        # An array drawn outside of a transformation may be read first inside it.
        with jax.ensure_compile_time_eval():
            return jax.device_put(array, where)
    aval, sharding, devices = _destination(array.shape, array.dtype, where)
    return batched_device_put(aval, sharding, [array], devices, True)


def beside(array: np.ndarray, other: Contents) -> Contents:
    """A NumPy array on the devices of another array.

    Args:
        array: See `upload`.
        other: A JAX array. The result has its sharding if the shapes are equal, and is replicated
            on its devices otherwise. For a tracer, and in a compiled function, the result is a
            constant of the program that is being traced, and on the meta device a shape and dtype.
    """
    if is_abstract(other):
        return abstract(array.shape, array.dtype)
    if isinstance(other, Tracer) or modes.trace is not None:
        return jnp.asarray(array)
    sharding = other.sharding
    if len(sharding.device_set) == 1:
        (where,) = sharding.device_set
        return upload(array, where)
    if other.shape == array.shape:
        return spanning.uploaded(array, sharding)
    if isinstance(sharding, NamedSharding):
        return spanning.uploaded(array, NamedSharding(sharding.mesh, PartitionSpec()))
    return jnp.asarray(array)


# An entry takes a kilobyte.
@functools.lru_cache(maxsize=512)
def _destination(shape: tuple[int, ...], dtype: np.dtype, where: JaxDevice) -> Args:
    """JAX's description of an unsharded array: everything except the elements."""
    aval = jax.typeof(np.broadcast_to(np.zeros((), dtype), shape))
    return aval, _on_one_device(where), [where]


#: One shared object, since comparison by identity is faster than by value.
_on_one_device = functools.cache(SingleDeviceSharding)
