"""Forward differentiation of a function of arrays, by `jax.jvp`, with this library's errors."""

from __future__ import annotations

from collections.abc import Callable

import jax

from flambeau.core.support.modes import modes
from flambeau.core.types import Leaf, Tree

Arrays = tuple[Leaf, ...]


def push(
    function: Callable[..., tuple[Arrays, Tree]], primals: Arrays, tangents: Arrays
) -> tuple[Arrays, Arrays, Tree]:
    """The value of a function of arrays, and the product of its Jacobian with vectors.

    Args:
        function: Returns a tuple of arrays, and other results that have no derivative.
        primals: Its arguments.
        tangents: For each primal, an array of the same shape and dtype.

    Returns:
        The arrays, their tangents, and the other results.

    Raises:
        NotImplementedError: The function contains an operation that defines only a backward
            gradient.
    """
    before, modes.pushing = modes.pushing, True
    try:
        return jax.jvp(function, primals, tangents, has_aux=True)
    except (TypeError, RuntimeError) as error:
        if "custom_vjp" not in str(error):
            raise
        raise NotImplementedError(
            "forward differentiation (jvp, jacfwd, hessian) has reached an operator or custom "
            "Function that defines its gradient for backward only; use vjp() or jacrev()"
        ) from error
    finally:
        modes.pushing = before
