"""Matrices as products of simpler ones."""

from __future__ import annotations

import jax.numpy as jnp

from flambeau.core.op import Array, op

__all__: list[str] = []


@op
def orthonormal_columns(input: Array) -> Array:
    """The orthogonal factor of ``input = Q R``, the one for which R has a positive diagonal.

    That choice makes the factor unique, and uniformly distributed over all orthogonal matrices if
    the elements of ``input`` are independent normals (F. Mezzadri, "How to generate random matrices
    from the classical compact groups", 2007).

    Args:
        input: Of shape ``(..., rows, columns)``, with no fewer rows than columns.
    """
    q, r = jnp.linalg.qr(input)
    return q * jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
