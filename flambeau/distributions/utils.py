"""Helpers of distributions: broadcasting, probabilities and logits, triangular matrices."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

from flambeau import ops
from flambeau.core.support.dtype import finfo, get_default_dtype
from flambeau.core.support.modes import enable_grad, modes
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.known import is_traced
from flambeau.ops.neural.softmax import softmax

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant: float = 0.57721566490153286060


def broadcast_all(*values: Any) -> Any:
    """The values as tensors of one shape.

    Args:
        values: Tensors and numbers. A number becomes a tensor with the dtype and device of the
            first tensor; if there is none, with the default dtype.

    Raises:
        ValueError: A value is neither a tensor nor a number.
    """
    tensors = [value for value in values if _is_tensor(value)]
    if not all(_is_tensor(value) or isinstance(value, numbers.Number) for value in values):
        kinds = ", ".join(type(value).__name__ for value in values)
        raise ValueError(
            "Input arguments must all be instances of Number, flambeau.Tensor or objects "
            f"implementing __torch_function__, got {kinds}"
        )
    if len(tensors) < len(values):
        dtype, device = get_default_dtype(), None
        if tensors:
            dtype, device = tensors[0].dtype, tensors[0].device
        values = tuple(
            value if _is_tensor(value) else ops.tensor(value, dtype=dtype, device=device)
            for value in values
        )
    return ops.broadcast_tensors(*values)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def is_known(value: Any) -> bool:
    """Whether a tensor has concrete elements, which it lacks while it is traced."""
    return not (value.is_meta or is_traced(value))


def sum_rightmost(value: Any, dims: int) -> Any:
    """The sum over the last ``dims`` dimensions."""
    return value.sum(tuple(range(-dims, 0))) if dims else value


_sum_rightmost = sum_rightmost


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Standard normal numbers."""
    return ops.randn(shape, dtype=dtype, device=device)


def clamp_probs(probs: Any) -> Any:
    """Clamp probabilities away from 0 and 1 by the dtype's machine epsilon."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """Probabilities from log-odds (``is_binary``), or from log-probabilities up to a constant."""
    return ops.sigmoid(logits) if is_binary else softmax(logits, -1)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """Log-odds (``is_binary``) or log-probabilities of clamped probabilities."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


class lazy_property:
    """A property that is computed once, with gradients recorded, and cached in the instance.

    Nothing is cached while tracing, since the value is a tracer.
    """

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        if modes.trace is None and not (isinstance(value, Tensor) and is_traced(value)):
            setattr(instance, self.name, value)
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The elements on and below a diagonal, row by row.

    Raises:
        ValueError: There is no such diagonal.
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = ops.tril_indices(n, n, diag, device=mat.device).unbind()
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """The matrix with these elements on and below a diagonal, and zeros above.

    Raises:
        ValueError: No matrix has this number of elements on and below the diagonal.
    """
    count = vec.shape[-1]
    # The sum of the rows' lengths, n (n + 1 + 2 diag) / 2 for diag <= 0, is solved for n.
    below = 1 + 2 * diag
    n = round((-below + math.sqrt(below**2 + 8 * count + 4 * abs(diag) * (diag + 1))) / 2)
    rows, columns = ops.tril_indices(n, n, diag, device=vec.device).unbind()
    if len(rows) != count:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    matrix = vec.new_zeros((*vec.shape[:-1], n, n))
    matrix[..., rows, columns] = vec
    return matrix
