"""The ``inplace`` flag that activation functions take."""

from __future__ import annotations

from flambeau.core.tensor import Tensor
from flambeau.core.writing import put


def stored(input: Tensor, result: Tensor, inplace: bool, name: str) -> Tensor:
    """``result``, written over ``input`` if ``inplace``."""
    return put(input, result, f"{name}_") if inplace else result
