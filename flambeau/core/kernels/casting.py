"""Elements as another dtype, by PyTorch's rules."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from flambeau.core.kernels.kinds import Operand
from flambeau.core.support.dtype import BOOLEAN, dtype
from flambeau.core.support.warning import warn
from flambeau.core.types import DTypeLike


def warn_of_lost_part(source: dtype, to: dtype) -> None:
    """Warn if a cast from the dtype ``source`` to ``to`` drops imaginary parts."""
    if source.is_complex and not to.is_complex and to.category != BOOLEAN:
        warn("Casting complex values to real discards the imaginary part; take x.real for that")


def cast(array: Operand, to: DTypeLike) -> jax.Array:
    """An array as the NumPy dtype ``to``.

    A cast to bool tests for values other than 0. A cast of complex numbers to a real dtype keeps
    the real parts. Floating point numbers outside an integer dtype's range wrap around.
    """
    if array.dtype == to:
        return array
    if to == np.bool_:
        return array != 0
    if array.dtype == np.bool_ and jnp.issubdtype(to, jnp.inexact):
        # XLA would treat a product with a converted bool as a select; see `opaque`.
        return jnp.where(array, np.ones((), to), np.zeros((), to))
    if jnp.iscomplexobj(array) and not jnp.issubdtype(to, jnp.complexfloating):
        array = jnp.real(array)
    if jnp.issubdtype(array.dtype, jnp.floating) and jnp.issubdtype(to, jnp.integer):
        # XLA would saturate.
        array = array.astype(jnp.int64)
    return array.astype(to)
