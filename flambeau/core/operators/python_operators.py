"""Python's operators on tensors, such as ``+``, and their other operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.export import is_symbolic_dim

from flambeau.core.support.tracebacks import trim, trimmed
from flambeau.core.values.tensor import Tensor

_TYPES: set[type] = {Tensor, int, float, bool, complex}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def attach(name: str, face: Callable[..., Any], in_place: Callable[..., Any] | None) -> None:
    """Make a Python operator call an operator's function.

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
        try:
            return face(self, other)
        except Exception as error:
            trim(error)
            raise

    @trimmed
    def reflected(self: Tensor, other: Any) -> Any:
        other = operand(other)
        return NotImplemented if other is NotImplemented else face(other, self)

    @trimmed
    def assigned(self: Tensor, other: Any) -> Any:
        other = operand(other)
        return NotImplemented if other is NotImplemented else in_place(self, other)  # type: ignore[misc]

    setattr(Tensor, f"__{name}__", forward)
    if name not in _COMPARISONS:
        setattr(Tensor, f"__r{name}__", reflected)
    if in_place is not None:
        setattr(Tensor, f"__i{name}__", assigned)


def operand(value: Any) -> Any:
    """The form of ``value`` as an operand of Python's operators on tensors.

    These operators take NumPy arrays too, which functions and methods refuse.

    Returns:
        A tensor, a number or another valid operand; ``NotImplemented`` for all other objects.
    """
    if type(value) in _TYPES:
        return value
    if isinstance(value, np.ndarray):
        return jnp.asarray(value) if value.dtype.kind in "biufc" else NotImplemented
    is_known = isinstance(value, Tensor | np.generic | bool | int | float | complex | jnp.ndarray)
    is_known = is_known or hasattr(type(value), "__torch_function__") or is_symbolic_dim(value)
    return value if is_known else NotImplemented
