"""The ``inplace`` flag that activation functions take."""

from __future__ import annotations

from flambeau.core.tensor import Tensor
from flambeau.core.writing import put
from flambeau.ops.selections.selection import Selection


def stored(input: Tensor, result: Tensor, inplace: bool, name: str) -> Tensor:
    """``result``, written over ``input`` if ``inplace``."""
    if inplace and isinstance(input, Selection):
        return input.copy_(result)
    return put(input, result, f"{name}_") if inplace else result
