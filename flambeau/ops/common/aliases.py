"""Second names that PyTorch gives to functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.values.tensor import Tensor


def also_method(name: str, of: Callable[..., Any]) -> Any:
    """Give Tensor's method of the function ``of`` a second name, in-place form included.

    Returns:
        ``of``, to be bound to the second name.
    """
    first = of.__name__
    setattr(Tensor, name, getattr(Tensor, first))
    if hasattr(Tensor, f"{first}_"):
        setattr(Tensor, f"{name}_", getattr(Tensor, f"{first}_"))
    return of
