"""The rules that choose elements to prune: random, by magnitude, by slice, or custom."""

from __future__ import annotations

import numbers

from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module
from flambeau.nn.utils.pruning_method import BasePruningMethod
from flambeau.ops.draws.sampling import rand, rand_like
from flambeau.ops.factories.creation import zeros_like

__all__ = [
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "RandomStructured",
    "RandomUnstructured",
]


class Identity(BasePruningMethod):
    """Prunes nothing; only adds a mask to the parameter."""

    PRUNING_TYPE: str = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """``default_mask``."""
        return default_mask

    @classmethod
    def apply(cls, module: Module, name: str) -> BasePruningMethod:
        """Give a parameter a mask; see `prune.identity`."""
        return super().apply(module, name)


class _Amount(BasePruningMethod):
    """A method that prunes a number or fraction of elements or slices.

    Args:
        amount: A fraction from 0.0 to 1.0, or an integer number.
    """

    def __init__(self, amount: float) -> None:
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"amount must be an int or a float, got {type(amount).__name__}")
        whole = isinstance(amount, numbers.Integral)
        # A comparison with NaN is false, so NaN is refused too.
        if not (amount >= 0 if whole else 0 <= amount <= 1.0):
            raise ValueError(
                f"amount must be a float from 0 to 1 or an int that is not negative, got {amount}"
            )
        self.amount = amount

    def _count(self, size: int) -> int:
        """The number of pruned elements of ``size``."""
        if not isinstance(self.amount, numbers.Integral):
            return round(self.amount * size)
        if self.amount > size:
            raise ValueError(f"amount={self.amount} is more than the {size} that can be pruned")
        return int(self.amount)


class RandomUnstructured(_Amount):
    """Prunes elements at random; see `prune.random_unstructured`."""

    PRUNING_TYPE: str = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """``default_mask`` with further elements 0."""
        count = self._count(t.numel())
        if count == 0:
            return default_mask.clone()
        return _without(default_mask, rand_like(t).reshape(-1).topk(count).indices)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float) -> BasePruningMethod:
        """Prune a parameter; see `prune.random_unstructured`."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Amount):
    """Prunes the elements with the least magnitude; see `prune.l1_unstructured`."""

    PRUNING_TYPE: str = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """``default_mask`` with further elements 0."""
        count = self._count(t.numel())
        if count == 0:
            return default_mask.clone()
        smallest = t.detach().abs().reshape(-1).topk(count, largest=False).indices
        return _without(default_mask, smallest)

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        amount: float,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:
        """Prune a parameter; see `prune.l1_unstructured`."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


def _without(mask: Tensor, indices: Tensor) -> Tensor:
    """``mask`` with the elements at flat ``indices`` 0."""
    return mask.reshape(-1).index_fill(0, indices, 0).reshape(mask.shape)


class _Structured(_Amount):
    """A method that prunes whole slices along a dimension.

    Args:
        amount: A fraction from 0.0 to 1.0, or an integer number, of the slices.
        dim: The dimension.
    """

    PRUNING_TYPE: str = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _slices_pruned(self, t: Tensor) -> int:
        if t.dim() <= 1:
            raise ValueError(
                "slices can be pruned of tensors with more than one dimension, got shape "
                f"{list(t.shape)}"
            )
        if self.dim >= t.dim():
            raise IndexError(f"dimension {self.dim} is out of range for shape {list(t.shape)}")
        return self._count(t.size(self.dim))

    def _keeping(self, t: Tensor, kept: Tensor, default_mask: Tensor) -> Tensor:
        """A mask of ones in the slices ``kept``, times ``default_mask``."""
        mask = zeros_like(t).detach()
        index: list[slice | Tensor] = [slice(None)] * t.dim()
        index[self.dim] = kept
        mask[tuple(index)] = 1
        return mask * default_mask.to(mask.dtype)


class RandomStructured(_Structured):
    """Prunes slices at random; see `prune.random_structured`."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """``default_mask`` with further slices 0."""
        count = self._slices_pruned(t)
        if count == 0:
            return default_mask
        drawn = rand(t.size(self.dim))
        return self._keeping(t, drawn > drawn.kthvalue(count).values, default_mask)

    @classmethod
    def apply(cls, module: Module, name: str, amount: float, dim: int = -1) -> BasePruningMethod:
        """Prune a parameter; see `prune.random_structured`."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Structured):
    """Prunes the slices with the least norm; see `prune.ln_structured`.

    Args:
        amount: A fraction from 0.0 to 1.0, or an integer number, of the slices.
        n: The order of the norm.
        dim: The dimension.
    """

    def __init__(self, amount: float, n: float | str, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """``default_mask`` with further slices 0."""
        count = self._slices_pruned(t)
        if count == 0:
            return default_mask
        others = [each for each in range(t.dim()) if each != self.dim % t.dim()]
        norms = t.detach().norm(p=self.n, dim=others)
        kept = norms.topk(t.size(self.dim) - count).indices
        return self._keeping(t, kept, default_mask)

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        amount: float,
        n: float | str,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> BasePruningMethod:
        """Prune a parameter; see `prune.ln_structured`."""
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes according to a given mask; see `prune.custom_from_mask`.

    Args:
        mask: In the shape of the parameter, 0 where it is pruned.
    """

    PRUNING_TYPE: str = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The product of both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"a mask of shape {list(self.mask.shape)} does not fit a parameter of shape "
                f"{list(default_mask.shape)}"
            )
        return default_mask * self.mask.to(default_mask.dtype)

    @classmethod
    def apply(cls, module: Module, name: str, mask: Tensor) -> BasePruningMethod:
        """Prune a parameter; see `prune.custom_from_mask`."""
        return super().apply(module, name, mask=mask)
