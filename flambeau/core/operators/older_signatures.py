"""PyTorch's deprecated signatures, in which a factor precedes the tensors that it scales.

Optimizers of 2019 call ``exp_avg.mul_(beta).add_(1 - beta, grad)``.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from flambeau.core.kernels.promotion import is_number
from flambeau.core.values.tensor import Tensor

_FACTORS = {"alpha", "beta", "value"}
_SCALED = ("input alpha other",)


def _orders(first: str, second: str) -> tuple[str, ...]:
    """The signatures of ``beta * input + alpha * product``, as a function and as a method."""
    return tuple(
        f"{lead} {factor}{first} {second}"
        for lead in ("beta input", "input beta")
        for factor in ("alpha ", "")
    )


_ORDERS: dict[str, tuple[str, ...]] = {
    "add": _SCALED,
    "addbmm": _orders("batch1", "batch2"),
    "addcdiv": ("input value tensor1 tensor2",),
    "addcmul": ("input value tensor1 tensor2",),
    "addmm": _orders("mat1", "mat2"),
    "addmv": _orders("mat", "vec"),
    "addr": _orders("vec1", "vec2"),
    "baddbmm": _orders("batch1", "batch2"),
    "sub": _SCALED,
}


def in_present_order(
    operator: str, args: tuple[Any, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Arguments in a deprecated order, in the order of the present signature; warns.

    Args:
        operator: The operator's name.
        args: The positional arguments.

    Returns:
        The tensors, and the factors by name; None if the operator has no such signature.
    """
    for order in _ORDERS.get(operator, ()):
        names = order.split()
        if len(names) == len(args) and all(map(_fits, names, args)):
            found = dict(zip(names, args, strict=True))
            factors = {name: found.pop(name) for name in names if name in _FACTORS}
            warnings.warn(
                f"This overload of {operator} is deprecated: {operator}({', '.join(names)}); pass "
                f"{' and '.join(factors)} by name, behind the tensors",
                UserWarning,
                stacklevel=4,
            )
            return tuple(found.values()), factors
    return None


def _fits(name: str, value: Any) -> bool:
    if isinstance(value, Tensor):
        return name not in _FACTORS or value.ndim == 0
    return name in _FACTORS and (is_number(value) or isinstance(value, np.generic))
