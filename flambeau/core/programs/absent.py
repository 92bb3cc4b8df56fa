"""Arrays without elements, for which a program is compiled before it has inputs."""

from __future__ import annotations

import jax
import numpy as np
from jax.core import ShapedArray
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from flambeau.core.support.jax_private import ArrayImpl


def without_elements(
    value: jax.ShapeDtypeStruct | jax.Array, committed: bool | None = None
) -> jax.Array:
    """An array of the shape, dtype and sharding of ``value`` that has been deleted.

    A trace takes it for any other array; whatever asks for its elements fails.

    Args:
        value: An array, or the value of a Cell on the meta device. Without a sharding, the result
            is on the first device, and programs may move it elsewhere.
        committed: Whether programs must not move it; as ``value`` by default.
    """
    sharding = value.sharding or SingleDeviceSharding(jax.local_devices()[0])
    if committed is None:
        committed = getattr(value, "committed", value.sharding is not None)
    aval = ShapedArray(value.shape, value.dtype, weak_type=value.weak_type)
    # One element for each device is enough, since the array is deleted at once.
    spread = isinstance(sharding, NamedSharding)
    whole = NamedSharding(sharding.mesh, PartitionSpec()) if spread else sharding
    with jax.ensure_compile_time_eval():
        parts = [each.data for each in jax.device_put(_ELEMENT, whole).addressable_shards]
    array = ArrayImpl(aval, sharding, parts, committed=committed, _skip_checks=True)
    array.delete()
    return array


_ELEMENT = np.zeros(1, np.float32)


def is_without_elements(array: object) -> bool:
    """Whether ``array`` is an array whose elements are gone."""
    return type(array) is ArrayImpl and array.is_deleted()
