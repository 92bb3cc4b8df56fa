"""The places of windows that go over an array."""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias

import numpy as np
from jax import lax

Numbers: TypeAlias = tuple[int, ...]
Borders: TypeAlias = list[tuple[int, int]]


def taps(
    array: Any, kernel: Numbers, outputs: Numbers, stride: Numbers, dilation: Numbers
) -> list[Any]:
    """For each place in a window, the elements that all windows have there.

    Args:
        array: ``(..., *spatial)``, padded.
        kernel: The size of a window along each spatial dimension.
        outputs: How many windows there are.
        stride: The step from window to window.
        dilation: The step between the elements of a window.

    Returns:
        Arrays ``(..., *outputs)``, the last dimension of the window counting fastest.
    """
    lead = array.shape[: array.ndim - len(kernel)]
    steps = (1,) * len(lead) + stride
    found = []
    for offsets in itertools.product(*map(range, kernel)):
        starts = tuple(o * d for o, d in zip(offsets, dilation, strict=True))
        stops = tuple(a + (n - 1) * s + 1 for a, n, s in zip(starts, outputs, stride, strict=True))
        found.append(lax.slice(array, (0,) * len(lead) + starts, lead + stops, steps))
    return found


def padded(input: Any, borders: Borders, spread: Numbers | None = None) -> Any:
    """``(N, C, *spatial)`` with zeros around it, or cropped where they are negative.

    Args:
        input: The tensor to pad.
        borders: How many zeros come before and behind each spatial dimension.
        spread: The step between the elements of ``input`` in the result, with zeros in between.
    """
    steps = spread or (1,) * len(borders)
    around = [(a, b, step - 1) for (a, b), step in zip(borders, steps, strict=True)]
    return lax.pad(input, np.zeros((), input.dtype), [(0, 0, 0)] * 2 + around)


def counts_of(
    input: Any, kernel: Numbers, stride: Numbers, borders: Borders, dilation: Numbers
) -> Numbers:
    """The number of outputs along each dimension."""
    return tuple(
        (size + before + after - d * (k - 1) - 1) // s + 1
        for size, k, s, (before, after), d in zip(
            input.shape[2:], kernel, stride, borders, dilation, strict=True
        )
    )
