"""Operators on what a mask selects, inside compiled functions, are right or refused.

The rows of other tables run with rows of their tensors selected: each gives PyTorch's results and
gradients, or a CompileError. Many rows share a program, which two masks run through.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import flambeau
from flambeau.core.support.modes import modes
from flambeau.core.values.trace import TracedValueError
from flambeau.ops.selections.selection import Selection
from tests.conformance import test_pointwise_ops, test_reduction_ops, test_shape_ops
from tests.conformance.operators import Row

TABLES = (test_pointwise_ops, test_reduction_ops, test_shape_ops)
# Every so many rows are run, in programs of so many.
STRIDE, SIZE = 7, 24
KINDS = ("float32", "int64", "bool")
MASKS = ([True, False], [False, True])
# Where the divisor of a variance is 0, flambeau's gradient is NaN in eager mode too.
OTHER_GRADIENTS = {"var correction", "var_mean correction"}
REFUSED = "refused"


def rows() -> Iterator[Row]:
    made = (name for each in TABLES for name in vars(each).items() if name[0].endswith("_rows"))
    for _, make in made:
        for row in make():
            kinds = {str(each.dtype) for each in row.inputs}
            if row.inputs and kinds <= {*KINDS} and row.inputs[0].ndim and len(row.inputs[0]) > 1:
                yield row


def batches() -> list[tuple[Row, ...]]:
    some = [*rows()][::STRIDE]
    return [tuple(some[start : start + SIZE]) for start in range(0, len(some), SIZE)]


def mask_for(row: Row, pattern: list[bool]) -> list[bool]:
    """The pattern, repeated for all rows of the first tensor."""
    return [pattern[n % 2] for n in range(len(row.inputs[0]))]


def made(lib: Any, row: Row) -> list[Any]:
    tensors = [
        lib.tensor(each.tolist(), dtype=getattr(lib, str(each.dtype))).reshape(each.shape)
        for each in row.inputs
    ]
    return [each.requires_grad_() if each.is_floating_point() else each for each in tensors]


def computed(lib: Any, row: Row, tensors: list[Any], mask: Any) -> list[Any]:
    """The tensors among the results, after their sum has been run backward."""
    length = len(row.inputs[0])
    given = [each[mask] if each.ndim and len(each) == length else each for each in tensors]
    results = [each for each in leaves(row.compute(lib, *given)) if isinstance(each, lib.Tensor)]
    recorded = [(each * 1.0).sum() for each in results if each.requires_grad]
    if recorded:
        sum(recorded[1:], recorded[0]).backward()
    return results


def leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


def expected(row: Row, mask: list[bool]) -> Any:
    tensors = made(torch, row)
    try:
        results = computed(torch, row, tensors, torch.tensor(mask))
    except Exception:  # noqa: BLE001
        return None
    return [each.detach().numpy() for each in results], [each.grad for each in tensors]


def outcome(row: Row, tensors: list[Any], mask: Any) -> Any:
    """Hidden dimensions, lanes and gradients of a row while it is traced; or why there are none."""
    leaf = [each.detach().requires_grad_(each.requires_grad) for each in tensors]
    try:
        results = computed(flambeau, row, leaf, mask)
    except TracedValueError:
        # The trace would fail in the end, since the function went on; here nothing follows from it.
        modes.trace.refused = None
        return REFUSED
    except Exception as error:  # noqa: BLE001
        return repr(error)
    hidden = [getattr(each, "hidden", None) for each in results]
    lanes = [(e.lanes, e.mask) if isinstance(e, Selection) else (e,) for e in results]
    return hidden, [[e.detach() for e in pair] for pair in lanes], [each.grad for each in leaf]


def selected(lanes: list[Any], hidden: int | None) -> np.ndarray:
    array = lanes[0].numpy()
    return array if hidden is None else np.compress(lanes[1].numpy(), array, axis=hidden)


def check(row: Row, found: Any, wanted: Any) -> None:
    if wanted is None or found == REFUSED:
        return
    assert not isinstance(found, str), found
    for hidden, lanes, other in zip(found[0], found[1], wanted[0], strict=True):
        one = selected(lanes, hidden)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)
    if not row.gradient or row.name in OTHER_GRADIENTS:
        return
    for gradient, expected in zip(found[2], wanted[1], strict=True):
        one = 0.0 if gradient is None else gradient.numpy()
        other = 0.0 if expected is None else expected.numpy()
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("batch", batches(), ids=lambda batch: batch[0].name)
@pytest.mark.filterwarnings("ignore")
def test_operators_on_selections(batch):
    def outcomes(inputs, masks):
        return [outcome(row, *given) for row, *given in zip(batch, inputs, masks, strict=True)]

    # The first call imports modules, which pytest notes in a table that the function can reach.
    first = [flambeau.tensor(mask_for(row, MASKS[0])) for row in batch]
    flambeau.compile(outcomes, fullgraph=True)([made(flambeau, row) for row in batch], first)
    program = flambeau.compile(outcomes, fullgraph=True)
    for pattern in MASKS:
        masks = [mask_for(row, pattern) for row in batch]
        inputs = [made(flambeau, row) for row in batch]
        found = program(inputs, [flambeau.tensor(each) for each in masks])
        assert any(each != REFUSED for each in found)
        for row, mask, each in zip(batch, masks, found, strict=True):
            try:
                check(row, each, expected(row, mask))
            except AssertionError as error:
                raise AssertionError(f"{row.name}: {error}") from error
    assert program.program_count == 1
