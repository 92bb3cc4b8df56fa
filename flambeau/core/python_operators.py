"""Python's operators on tensors, such as ``+``, and the other operands that they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from flambeau.core.tensor import Tensor

_TYPES: set[type] = {Tensor, int, float, bool, complex}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def attach(name: str, face: Callable[..., Any], in_place: Callable[..., Any] | None) -> None:
    """Let a Python operator call an operator's function.

    Args:
        name: The operator as Python names it: ``"add"`` for ``+``.
        face: Takes both operands.
        in_place: Overwrites its first operand, for ``+=``.
    """

    def forward(self: Tensor, other: Any) -> Any:
        if type(other) not in _TYPES:
            other = operand(other)
            if other is NotImplemented:
                return NotImplemented
        return face(self, other)

    def reflected(self: Tensor, other: Any) -> Any:
        other = operand(other)
        return NotImplemented if other is NotImplemented else face(other, self)

    def assigned(self: Tensor, other: Any) -> Any:
        other = operand(other)
        return NotImplemented if other is NotImplemented else in_place(self, other)  # type: ignore[misc]

    setattr(Tensor, f"__{name}__", forward)
    if name not in _COMPARISONS:
        setattr(Tensor, f"__r{name}__", reflected)
    if in_place is not None:
        setattr(Tensor, f"__i{name}__", assigned)


def operand(value: Any) -> Any:
    """The operand that stands for ``value`` in Python's operators on tensors.

    They take NumPy arrays too, which functions and methods refuse.

    Returns:
        A tensor, a number or something else that takes part; ``NotImplemented`` for other objects.
    """
    if type(value) in _TYPES:
        return value
    if isinstance(value, np.ndarray):
        return jnp.asarray(value) if value.dtype.kind in "biufc" else NotImplemented
    is_known = isinstance(value, Tensor | np.generic | bool | int | float | complex | jnp.ndarray)
    return value if is_known or hasattr(type(value), "__torch_function__") else NotImplemented
