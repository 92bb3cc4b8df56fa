"""Derivatives of sampled functions by finite differences."""

from __future__ import annotations

from typing import Any

from flambeau.core.operators.op import function
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dims
from flambeau.ops.shapes.shape import cat

__all__ = ["gradient"]


@function
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> Any:
    """The partial derivatives of a function given by samples.

    Central differences in the interior, of second order even for unequal spacing; one-sided
    differences at both ends.

    Args:
        input: The samples.
        spacing: The distance between samples, a number for all dimensions or one for each; or the
            coordinates of the samples along each dimension, as 1-d tensors. By default 1.
        dim: The dimensions to differentiate along; by default all.
        edge_order: The order of the differences at the ends, 1 or 2.

    Returns:
        A tuple with a tensor of the shape of ``input`` for each dimension.

    Raises:
        RuntimeError: A dimension is too short; spacings and dimensions differ in number;
            ``edge_order`` is neither 1 nor 2.

    >>> import flambeau
    >>> flambeau.gradient(flambeau.tensor([1.0, 2.0, 4.0, 8.0]))
    (tensor([1.0000, 1.5000, 3.0000, 4.0000]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient(): edge_order must be 1 or 2, got {edge_order}")
    dims = wrap_dims(dim, input.ndim, "gradient")
    spacings = _spacings(spacing, len(dims))
    if not (input.is_floating_point() or input.is_complex()):
        input = (input - 0).to(dtype=(input / 1).dtype)
    for each in dims:
        if input.shape[each] <= edge_order:
            raise RuntimeError(
                f"gradient(): dimension {each} of size {input.shape[each]} is too short; "
                f"edge_order={edge_order} needs {edge_order + 1}"
            )
    found = []
    for each, distance in zip(dims, spacings, strict=True):
        along = input.transpose(each, -1)
        found.append(_along_last(along, distance, edge_order).transpose(each, -1))
    return tuple(found)


def _spacings(spacing: Any, count: int) -> list[Any]:
    if spacing is None or isinstance(spacing, int | float | complex):
        return [1 if spacing is None else spacing] * count
    if isinstance(spacing, Tensor) and not spacing.ndim:
        return [spacing] * count
    given = [spacing] if isinstance(spacing, Tensor) else list(spacing)
    if len(given) != count:
        raise RuntimeError(f"gradient(): {len(given)} spacings for {count} dimensions")
    return given


def _along_last(values: Tensor, spacing: Any, edge_order: int) -> Any:
    """The derivative along the last dimension."""
    size = values.size(-1)
    if isinstance(spacing, Tensor) and spacing.ndim:
        if spacing.numel() != size:
            raise RuntimeError(
                f"gradient(): {spacing.numel()} coordinates for a dimension of size {size}"
            )
        steps = spacing[1:] - spacing[:-1]
    else:
        steps = values.new_ones(size - 1) * spacing
    slopes = (values[..., 1:] - values[..., :-1]) / steps
    before, behind = steps[:-1], steps[1:]
    weight = behind / (before + behind)
    inner = weight * slopes[..., :-1] + (1 - weight) * slopes[..., 1:]
    first, last = slopes[..., :1], slopes[..., -1:]
    if edge_order == 2:
        # The parabola through the last three samples has this slope at its end.
        first = first + (first - slopes[..., 1:2]) * (steps[0] / (steps[0] + steps[1]))
        last = last + (last - slopes[..., -2:-1]) * (steps[-1] / (steps[-1] + steps[-2]))
    return cat((first, inner, last), -1)
