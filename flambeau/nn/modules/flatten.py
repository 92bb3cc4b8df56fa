"""Merging dimensions into one, and splitting one into several."""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Merges the dimensions from ``start_dim`` to ``end_dim`` into one.

    Shapes: ``(N, *)`` to ``(N, product of *)`` by default.

    Args:
        start_dim: The first dimension to merge.
        end_dim: The last one.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Flatten()(flambeau.zeros(32, 1, 5, 5)).shape
    flambeau.Size([32, 25])
    """

    __constants__: list[str] = ["start_dim", "end_dim"]
    _repr_attributes = ("start_dim", "end_dim")

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    """Splits one dimension into several; the inverse of `Flatten`.

    Shapes: ``(*, S, *)`` to ``(*, *unflattened_size, *)``.

    Args:
        dim: The dimension to split.
        unflattened_size: The new sizes; one may be -1, for the rest.

    Raises:
        TypeError: ``unflattened_size`` is not a tuple or list of integers.

    >>> import flambeau
    >>> from flambeau import nn
    >>> nn.Unflatten(1, (2, 5, 5))(flambeau.zeros(2, 50)).shape
    flambeau.Size([2, 2, 5, 5])
    """

    __constants__: list[str] = ["dim", "unflattened_size"]
    _repr_attributes = ("dim", "unflattened_size")

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self._require_tuple_int(unflattened_size)
        self.dim = dim
        self.unflattened_size = unflattened_size

    def _require_tuple_int(self, sizes: object) -> None:
        if not isinstance(sizes, tuple | list):
            raise TypeError(
                f"unflattened_size must be a tuple of integers, got a {type(sizes).__name__}"
            )
        for position, size in enumerate(sizes):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be a tuple of integers, got a "
                    f"{type(size).__name__} at position {position}"
                )

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)
