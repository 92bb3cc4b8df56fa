"""PyTorch with other rounding errors: each result is moved by as much as rounding could move it.

A comparison, a remainder or a truth value jumps where its operand is left of a cancellation, which
moving the inputs of a program does not always show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from tests.fuzz.as_documented import IN_PLACE, memory_of, name_of, tensors


class Rounding(TorchFunctionMode):
    """Moves what functions of tensors give by a unit in the last place of the largest operand.

    Args:
        seed: The seed of the moves; ``None`` if only what is left of cancellations becomes zero.
    """

    def __init__(self, seed: int | None) -> None:
        super().__init__()
        self._generator = None if seed is None else np.random.default_rng(seed)

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the function, and move its result if that is a tensor of its own."""
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        name = name_of(function)
        if not isinstance(result, torch.Tensor) or IN_PLACE.match(name) or "out" in kwargs:
            return result
        operands = [each for each in tensors(args, kwargs) if is_inexact(each)]
        if not is_inexact(result) or not operands:
            return result
        if any(memory_of(each) == memory_of(result) for each in operands):
            return result
        largest = max(magnitudes([result, *operands]), default=0.0)
        if result.is_complex():
            parts = torch.view_as_real(result.resolve_conj().resolve_neg())
            return torch.view_as_complex(self._moved(parts, largest))
        return self._moved(result, largest)

    def _moved(self, result: Any, largest: float) -> Any:
        signs = torch.zeros(result.shape, dtype=torch.float64)
        if self._generator is not None:
            choices = self._generator.choice([-1.0, 0.0, 1.0], size=tuple(result.shape))
            signs = torch.tensor(choices)
        size = largest * torch.finfo(result.dtype).eps
        # What is left of a few cancellations may as well be zero: products are fused with sums.
        # In place, since strides decide what later views share.
        kept = result.clone().masked_fill_((signs == 0) & (result.abs() <= 4 * size), 0)
        return kept + (signs * size).to(result.dtype)


def is_inexact(tensor: Any) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def magnitudes(values: list[Any]) -> Iterator[float]:
    for each in values:
        finite = each.detach()[each.detach().isfinite()]
        if finite.numel():
            yield float(finite.abs().max())
