"""The singular value decomposition with square factors, and its derivative."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp


# JAX has no derivative of it if the matrix is not square.
@jax.custom_jvp
def square_svd(A: Any) -> tuple[Any, Any, Any]:
    """U, S and Vh; columns of U and rows of Vh without a singular value have no derivative."""
    u, s, vh = jnp.linalg.svd(A)
    return u, s, vh


@square_svd.defjvp
def _square_svd_jvp(primals: Any, tangents: Any) -> Any:
    u, s, vh = square_svd(*primals)
    count = s.shape[-1]
    narrow = functools.partial(jnp.linalg.svd, full_matrices=False)
    (other, *_), (change_u, change_s, change_vh) = jax.jvp(narrow, primals, tangents)
    # The vectors of both decompositions may differ by signs, or by phases.
    turn = jnp.sum(other.conj() * u[..., :count], -2, keepdims=True)
    turn = jax.lax.stop_gradient(turn)
    of_u = jnp.zeros_like(u).at[..., :count].set(change_u * turn)
    of_vh = jnp.zeros_like(vh).at[..., :count, :].set(change_vh * turn.conj().mT)
    return (u, s, vh), (of_u, change_s, of_vh)
