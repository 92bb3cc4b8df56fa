"""Evaluating one expression with PyTorch and with flambeau, and comparing what came out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import torch

import flambeau

Expression = Callable[[Any], Any]


class Value(NamedTuple):
    """A tensor, as far as both libraries agree on what that is."""

    dtype: str
    shape: tuple[int, ...]
    device: str
    requires_grad: bool
    elements: np.ndarray | None


class Observation(NamedTuple):
    """What an expression did: a list of what it gave, or the type of what it raised."""

    values: list[Any]
    raised: type[BaseException] | None
    warned: list[str]


def observe(compute: Expression, lib: Any) -> Observation:
    """Evaluate ``compute(lib)``, which may give a tensor, anything else, or a tuple of such."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            results, raised = compute(lib), None
        except Exception as error:  # noqa: BLE001
            results, raised = (), type(error)
    results = results if type(results) is tuple else (results,)
    values = [describe(each) if isinstance(each, lib.Tensor) else each for each in results]
    return Observation(values, raised, sorted({each.category.__name__ for each in caught}))


def describe(tensor: Any) -> Value:
    """A tensor of either library."""
    dtype = str(tensor.dtype).rpartition(".")[2]
    shape, where = tuple(tensor.shape), str(tensor.device)
    elements = None if tensor.is_meta else _elements(tensor.detach(), dtype)
    return Value(dtype, shape, where, tensor.requires_grad, elements)


def _elements(tensor: Any, dtype: str) -> np.ndarray:
    if dtype == "bfloat16" and isinstance(tensor, torch.Tensor):
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    if not str(tensor.layout).endswith("strided"):
        tensor = tensor.to_dense()
    return np.asarray(tensor.numpy())


def check(compute: Expression, tolerance: float = 0.0) -> None:
    """Compare what both libraries do: values within a relative tolerance, all else exactly."""
    expected, found = observe(compute, torch), observe(compute, flambeau)
    assert found.raised == expected.raised
    assert found.warned == expected.warned
    for ours, theirs in zip(found.values, expected.values, strict=True):
        compare(ours, theirs, tolerance)


def compare(ours: Any, theirs: Any, tolerance: float = 0.0) -> None:
    """Compare one value of each library."""
    if not isinstance(theirs, Value):
        assert ours == theirs
        return
    assert ours[:-1] == theirs[:-1]
    if theirs.elements is None or ours.elements is None:
        assert ours.elements is theirs.elements
    elif tolerance:
        np.testing.assert_allclose(
            _wide(ours.elements), _wide(theirs.elements), rtol=tolerance, atol=tolerance
        )
    else:
        np.testing.assert_array_equal(ours.elements, theirs.elements)


def _wide(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind in "biuc" else array.astype(np.float64)
