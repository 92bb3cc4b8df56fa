"""The ``inplace`` flag that activation functions take."""

from __future__ import annotations

from flambeau.core.tensor import Tensor
from flambeau.core.writing import put
from flambeau.ops.neural.activation import not_differentiated
from flambeau.ops.selections.selection import Selection


def stored_irreversibly(input: Tensor, result: Tensor, name: str, slope: float) -> Tensor:
    """`stored` in place, for a function of which PyTorch keeps the result and not ``input``.

    With a negative slope the result does not tell the sign of ``input``: no gradient is given.
    """
    if slope < 0:
        result = not_differentiated(result, f"{name}_(), in place with a negative slope {slope},")
    return stored(input, result, True, name)


def stored(input: Tensor, result: Tensor, inplace: bool, name: str) -> Tensor:
    """``result``, written over ``input`` if ``inplace``."""
    if inplace and isinstance(input, Selection):
        return input.copy_(result)
    return put(input, result, f"{name}_") if inplace else result
