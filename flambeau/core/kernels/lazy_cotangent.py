"""Cotangents whose computation is deferred and fused with the gradients that follow.

If a node passes a cotangent to only one input, which another operator made, the computation is
deferred to that operator's node: both gradients are then one program, with one call and no array
between them. In a chain of activations, reshapes and the like, most gradients need no program of
their own.
"""

from __future__ import annotations

from typing import Any

import jax

from flambeau.core.kernels.kernel import Arrays, Kernel

#: At most this many gradients become one program.
LONGEST = 8


class LazyCotangent:
    """A cotangent that has not been computed yet.

    Args:
        kernel: The gradient kernel whose only result is this cotangent.
        arrays: The inputs of the kernel.
        length: The number of gradients in the kernel.
    """

    __slots__ = ("arrays", "kernel", "length")

    def __init__(self, kernel: Kernel, arrays: Arrays, length: int) -> None:
        self.kernel: Kernel = kernel
        self.arrays: Arrays = arrays
        self.length: int = length

    def value(self) -> jax.Array:
        """The cotangent, computed."""
        return self.kernel.forward(*self.arrays)[0]

    def followed_by(self, gradient: Kernel, saved: Arrays) -> tuple[Kernel, Arrays]:
        """The kernel that computes this cotangent and a gradient of it, and its arguments.

        Args:
            gradient: A gradient that takes ``saved`` and then this cotangent.
            saved: Arrays.
        """
        kernel = self.kernel.followed_by(gradient, len(self.arrays))
        return kernel, self.arrays + saved


def value_of(cotangent: Any) -> Any:
    """A cotangent as an array, if there is one."""
    return cotangent.value() if type(cotangent) is LazyCotangent else cotangent
