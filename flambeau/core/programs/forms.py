"""One aval for each shape and dtype, so that arrays are compared by identity."""

from __future__ import annotations

import weakref

from jax.core import ShapedArray

from flambeau.core.types import Key

# JAX compares avals by identity since 0.11, and on GPUs results of two programs that agree in shape
# and dtype may have different avals.
_forms: weakref.WeakValueDictionary[Key, ShapedArray] = weakref.WeakValueDictionary()


def form_of(aval: ShapedArray) -> ShapedArray:
    """The first aval that was seen with this shape, dtype, weak type and kind of memory."""
    space = getattr(aval, "memory_space", None)
    return _forms.setdefault((aval.shape, aval.dtype, aval.weak_type, space), aval)
