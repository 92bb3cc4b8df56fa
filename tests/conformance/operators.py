"""One expression with ``torch`` and with ``flambeau``: results, gradients, nodes and errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import torch

import flambeau
from flambeau.core.values.convert import make


class Row(NamedTuple):
    """A row of a table of comparisons.

    Attributes:
        name: What the test is called.
        compute: Called as ``compute(lib, *tensors)``, with ``torch`` and with ``flambeau``.
        inputs: NumPy arrays; those of floating point and complex dtype take gradients.
        tolerance: Relative and absolute; by default a few units in the last place of the dtype.
        gradient: Whether gradients are compared.
        node: Whether the names of the nodes on the tape are compared.
    """

    name: str
    compute: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]
    tolerance: float | None = None
    gradient: bool = True
    node: bool = True


class Outcome(NamedTuple):
    """What an expression gave: results, their dtypes and nodes, gradients; or an exception."""

    results: list[np.ndarray]
    dtypes: list[str]
    nodes: list[str | None]
    gradients: list[np.ndarray | None]
    raised: Exception | None = None


def table(rows: Iterator[Row]) -> Any:
    """The decorator that runs a test once for each row."""
    listed = list(rows)
    names = [row.name for row in listed]
    assert len(set(names)) == len(names), "rows of the same name"
    return pytest.mark.parametrize("row", listed, ids=names)


def compare(row: Row) -> None:
    """Check that both libraries give the same, or refuse with the same type of exception."""
    theirs, ours = observe(row, torch), observe(row, flambeau)
    if theirs.raised is not None:
        assert ours.raised is not None, f"PyTorch raises {theirs.raised!r}"
        assert isinstance(ours.raised, type(theirs.raised)), (ours.raised, theirs.raised)
        return
    if ours.raised is not None:
        raise ours.raised
    assert ours.dtypes == theirs.dtypes
    assert [each.shape for each in ours.results] == [each.shape for each in theirs.results]
    for found, expected, kind in zip(ours.results, theirs.results, ours.dtypes, strict=True):
        assert_close(found, expected, row.tolerance or tolerance_of(kind))
    if row.node:
        assert ours.nodes == theirs.nodes
    if row.gradient:
        tolerance = max(tolerance_of(str(each.dtype)) for each in row.inputs)
        for found, expected in zip(ours.gradients, theirs.gradients, strict=True):
            # PyTorch leaves out gradients that it knows to be zero.
            if expected is None:
                assert found is None or not np.any(found)
            else:
                assert found is not None, "no gradient arrived"
                assert found.shape == expected.shape
                assert_close(found, expected, row.tolerance or tolerance)


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Equal NaNs and infinities, and close numbers."""
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def tolerance_of(dtype: str) -> float:
    """A few units in the last place; 0 for exact dtypes."""
    places = {"float64": 1e-12, "complex128": 1e-12, "float16": 2e-3, "bfloat16": 1.6e-2}
    return places.get(dtype, 4e-6 if dtype in ("float32", "complex64") else 0)


def to_torch(array: np.ndarray) -> torch.Tensor:
    """A PyTorch tensor with the elements of ``array``."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    return torch.from_numpy(np.array(array))


def to_numpy(tensor: Any) -> np.ndarray:
    """The elements of either library's tensor, bfloat16 as float32."""
    tensor = tensor.detach()
    if str(tensor.dtype).endswith("bfloat16"):
        tensor = tensor.float()
    return np.asarray(tensor.numpy(force=True))


def observe(row: Row, lib: Any) -> Outcome:
    """Run the row with one library."""
    convert = to_torch if lib is torch else make
    tensors = [convert(each) for each in row.inputs]
    for each in tensors:
        if each.is_floating_point() or each.is_complex():
            each.requires_grad_(row.gradient)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results = row.compute(lib, *tensors)
            results = list(results) if isinstance(results, tuple) else [results]
            _backward(results, convert)
        except Exception as error:  # noqa: BLE001
            return Outcome([], [], [], [], error)
    return Outcome(
        [to_numpy(each) for each in results],
        [str(each.dtype).split(".")[-1] for each in results],
        [None if each.grad_fn is None else each.grad_fn.name() for each in results],
        [None if each.grad is None else to_numpy(each.grad) for each in tensors],
    )


def _backward(results: list[Any], convert: Callable[..., Any]) -> None:
    """Backward with a fixed cotangent for each result that takes one."""
    random = np.random.default_rng(7)
    recorded = [each for each in results if each.requires_grad]
    for number, each in enumerate(recorded):
        like = to_numpy(each)
        cotangent = np.asarray(random.standard_normal(like.shape), like.dtype)
        cotangent = convert(cotangent).to(each.dtype)
        each.backward(cotangent, retain_graph=number + 1 < len(recorded))
