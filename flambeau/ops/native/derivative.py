"""Derivatives of operators whose gradient is a native kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.custom_derivatives import SymbolicZero

from flambeau.ops.cpu_forms.linear_maps import Arrays, LinearMap

__all__: list[str] = []


def derivative(
    plain: Callable[..., Any], gradients: Callable[[Arrays, Arrays], Arrays], *, batches: bool
) -> LinearMap:
    """The tangent of a result, from the tangents of the arrays that it is computed from.

    Args:
        plain: The result, or a tuple of results, by operations that JAX can differentiate.
        gradients: From ``(fixed, cotangents)`` to the arrays' cotangents, by a kernel. The first of
            ``fixed`` are the arrays; others are computed from them, to save time.
        batches: Whether ``gradients`` can be batched by ``jax.vmap``; else ``plain`` is.
    """

    def apply(fixed: Any, linear: Any) -> Any:
        inputs = fixed[: len(linear)]
        places = [place for place, each in enumerate(linear) if each is not None]

        def of_moving(*arrays: Any) -> Any:
            given = dict(zip(places, arrays, strict=True))
            return plain(*(given.get(place, each) for place, each in enumerate(inputs)))

        primals = tuple(inputs[place] for place in places)
        tangents = tuple(linear[place] for place in places)
        moved = jax.jvp(of_moving, primals, tangents)[1]
        return moved if isinstance(moved, tuple) else (moved,)

    return LinearMap(apply, gradients, batches, native=True)


def moving(tangents: Any) -> Arrays:
    """Tangents with symbolic zeros replaced by ``None``."""
    return tuple(
        None if each is None or isinstance(each, SymbolicZero) else each for each in tangents
    )
