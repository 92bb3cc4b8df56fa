"""Random tensors of any dtype, for tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flambeau.core.support import dtype as dtypes
from flambeau.core.values.tensor import Tensor
from flambeau.ops.draws.sampling import randint
from flambeau.ops.factories.creation import empty
from flambeau.ops.factories.factory import checked_dtype
from flambeau.ops.shapes.views import view_as_real

__all__ = ["make_tensor"]


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of elements drawn uniformly from ``[low, high)``.

    Args:
        shape: Integers, or one sequence of them.
        dtype: The dtype of the elements.
        device: The device of the result.
        low: The least element, or the least of both parts of complex numbers. By default 0 for
            bools and unsigned integers, else -9. Bounds are clamped to the dtype's range.
        high: The exclusive upper bound. By default 2 for bools, 10 for integers, else 9.
        requires_grad: Whether the result requires gradients.
        noncontiguous: Return every second element of a tensor that is twice as wide, if there are
            at least two elements.
        exclude_zero: Replace each 0 by 1, or by the least normal number of a floating-point dtype;
            for complex numbers in both parts.
        memory_format: Without effect; it cannot be combined with ``noncontiguous``.

    Raises:
        TypeError: ``dtype`` is not a dtype.
        ValueError: ``low`` is not below ``high``, one of them is NaN, or no number of the dtype is
            between them; or ``requires_grad`` is set for bools or integers; or ``memory_format``
            and ``noncontiguous`` are given.

    >>> import flambeau
    >>> made = flambeau.testing.make_tensor(2, 3, dtype=flambeau.int8, device="cpu", low=1)
    >>> made.shape, bool((1 <= made).all()), bool((made < 10).all())
    (flambeau.Size([2, 3]), True, True)
    """
    dtype = checked_dtype("make_tensor", dtype)
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor() takes noncontiguous or memory_format, not both")
    if requires_grad and dtype.category < dtypes.FLOATING:
        raise ValueError(f"make_tensor(): a tensor of {dtype} cannot require grad")
    sizes = tuple(shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape)
    low, high = _bounds(dtype, low, high)
    noncontiguous = noncontiguous and math.prod(sizes) > 1
    drawn = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous else sizes
    result = _draw(drawn, dtype, device, low, high)
    if noncontiguous:
        result = result[..., 1::2]
    if exclude_zero:
        result[result == 0] = _least(dtype)
    return result.requires_grad_() if requires_grad else result


def _bounds(dtype: Any, low: float | None, high: float | None) -> tuple[float, float]:
    """The bounds of the elements: integers for integer dtypes."""
    if dtype.category == dtypes.BOOLEAN:
        least, end, usual_low, usual_high = 0, 2, 0, 2
    elif dtype.category == dtypes.INTEGER:
        info = dtypes.iinfo(dtype)
        # Draws are int64, whose maximum no bound can exceed.
        least, end = info.min, min(info.max + 1, dtypes.iinfo(dtypes.int64).max)
        usual_low, usual_high = max(least, -9), 10
    else:
        info = dtypes.finfo(dtype)
        least, end, usual_low, usual_high = info.min, info.max, -9, 9
    low, high = usual_low if low is None else low, usual_high if high is None else high
    if math.isnan(low) or math.isnan(high) or low >= high:
        raise ValueError(
            f"make_tensor(): low must be below high, got {low} and {high}; flambeau.full() makes "
            "tensors of one number"
        )
    if high < least or low >= end:
        raise ValueError(
            f"make_tensor(): no numbers of {dtype}, which are from {least} to {end}, are from "
            f"{low} to {high}"
        )
    low, high = (min(max(each, least), end) for each in (low, high))
    if dtype.category < dtypes.FLOATING:
        # Draws are below the upper bound, so both are rounded up.
        return math.ceil(low), math.ceil(high)
    return low, high


def _draw(sizes: tuple[int, ...], dtype: Any, device: Any, low: Any, high: Any) -> Tensor:
    if dtype.category < dtypes.FLOATING:
        return randint(low, high, sizes, dtype=dtype, device=device)
    if dtype.itemsize == 1:
        return _uniform(empty(sizes, dtype=dtypes.float32, device=device), low, high).to(dtype)
    result = empty(sizes, dtype=dtype, device=device)
    _uniform(view_as_real(result) if dtype.is_complex else result, low, high)
    return result


def _uniform(result: Tensor, low: float, high: float) -> Tensor:
    # The width of the range must be representable in the dtype.
    if high - low >= dtypes.finfo(result.dtype).max:
        return result.uniform_(low / 2, high / 2).mul_(2)
    return result.uniform_(low, high)


def _least(dtype: Any) -> Any:
    if dtype.category < dtypes.FLOATING:
        return 1
    tiny = dtypes.finfo(dtype).tiny
    return complex(tiny, tiny) if dtype.is_complex else tiny
