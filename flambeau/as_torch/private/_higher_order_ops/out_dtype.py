"""An operator whose result has a wider dtype than its operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.support.dtype import dtype
from flambeau.core.values.tensor import Tensor

__all__ = ["out_dtype"]


def out_dtype(op: Callable[..., Any], output_dtype: dtype, *args: Any) -> Any:
    """``op`` of the arguments, computed in a dtype.

    Args:
        op: The operator.
        output_dtype: The dtype of the result, to which tensors are converted first.
        args: The operator's arguments.
    """
    return op(*[each.to(output_dtype) if isinstance(each, Tensor) else each for each in args])
