"""The ``inplace`` flag that activation functions take."""

from __future__ import annotations

from flambeau.core.operators.writing import put
from flambeau.core.values.tensor import Tensor
from flambeau.ops.neural.activation import not_differentiated
from flambeau.ops.selections.selection import Selection


def stored_irreversibly(input: Tensor, result: Tensor, name: str, slope: float) -> Tensor:
    """`stored` in place, for a function whose result PyTorch saves instead of ``input``.

    With a negative slope the sign of ``input`` does not follow from the result, so there is no
    gradient.
    """
    if slope < 0:
        result = not_differentiated(result, f"{name}_(), in place with a negative slope {slope},")
    return stored(input, result, True, name)


def stored(input: Tensor, result: Tensor, inplace: bool, name: str) -> Tensor:
    """``result``, which overwrites ``input`` if ``inplace``."""
    if inplace and isinstance(input, Selection):
        return input.copy_(result)
    return put(input, result, f"{name}_") if inplace else result
