"""A hash of the elements of a tensor."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import op
from flambeau.core.support import errors
from flambeau.core.support.dtype import COMPLEX, FLOATING
from flambeau.ops.common.checks import Dims, category, wrap_dims

__all__ = ["hash_tensor"]


@op(method=True, differentiable=False)
def hash_tensor(input: Array, dim: Dims = None, *, keepdim: bool = False, mode: int = 0) -> Array:
    """The exclusive or of the bits of all elements, or over some dimensions, as uint64.

    Equal elements have equal hashes on every device. The order does not matter, and two equal
    elements cancel each other.

    Args:
        input: A tensor; its elements are converted to float64 or int64.
        dim: One dimension or several; all of them by default.
        keepdim: Keep the reduced dimensions, with size 1.
        mode: 0, the only one.

    Raises:
        NotImplementedError: The elements are complex, unsigned of more than 8 bits or floats of 8.
        RuntimeError: There is no such mode, or no elements and no ``dim``.
        IndexError: There is no such dimension, or it has no elements.

    >>> import flambeau
    >>> flambeau.hash_tensor(flambeau.tensor([[1, 2], [4, 7]]), 1)
    tensor([3, 3], dtype=flambeau.uint64)
    """
    dims = wrap_dims(dim, input.ndim, "hash_tensor")
    if mode != 0:
        raise RuntimeError(f"hash_tensor(): mode must be 0, got {mode}")
    _check_elements(input, dims, chosen=dim is not None and dim != () and dim != [])
    wide = _as_float64(input) if category(input) == FLOATING else input.astype(jnp.int64)
    bits = jax.lax.bitcast_convert_type(wide, jnp.uint64)
    found = jax.lax.reduce_xor(bits, dims)
    return jnp.expand_dims(found, dims) if keepdim else found


def _check_elements(input: Any, dims: tuple[int, ...], chosen: bool) -> None:
    size, kind = input.dtype.itemsize, input.dtype.kind
    is_small_float = size == 1 and category(input) == FLOATING
    if category(input) == COMPLEX or (kind == "u" and size > 1) or is_small_float:
        raise NotImplementedError(f"hash_tensor() of {input.dtype.name}: convert the tensor first")
    if input.size == 0 and not chosen:
        raise RuntimeError("hash_tensor() of no elements needs dim")
    for each in dims:
        if input.shape and input.shape[each] == 0:
            raise errors.IndexError(
                f"hash_tensor(): dimension {each} of {list(input.shape)} is empty"
            )


def _as_float64(input: Any) -> Any:
    """The elements in double precision, even subnormal ones, which XLA's CPU code flushes."""
    if input.dtype == jnp.bfloat16:
        # The upper half of a float32.
        bits = jax.lax.bitcast_convert_type(input, jnp.uint16).astype(jnp.uint32) << 16
    elif input.dtype == jnp.float32:
        bits = jax.lax.bitcast_convert_type(input, jnp.uint32)
    else:
        return input.astype(jnp.float64)
    single = jax.lax.bitcast_convert_type(bits, jnp.float32)
    subnormal = (bits & 0x7FFFFF).astype(jnp.float64) * 2.0**-149
    has_exponent = bits & 0x7F800000 != 0
    return jnp.where(has_exponent, single.astype(jnp.float64), jnp.copysign(subnormal, single))
