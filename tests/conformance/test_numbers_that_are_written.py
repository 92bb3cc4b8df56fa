"""Numbers that a dtype cannot hold: which operators refuse them, and what the others write."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import flambeau


def assigned(lib: Any, tensor: Any, index: Any, value: Any) -> Any:
    tensor[index(lib, tensor)] = value
    return tensor


def first(lib: Any) -> Any:
    return lib.tensor([0])


OPERATORS = {
    "fill_": lambda lib, x, value: x.fill_(value),
    "full": lambda lib, x, value: lib.full((1, 3), value, dtype=x.dtype),
    "new_full": lambda lib, x, value: x.new_full((1, 3), value),
    "index_fill": lambda lib, x, value: x.index_fill(1, first(lib), value),
    "masked_fill": lambda lib, x, value: x.masked_fill(x == 1, value),
    "masked_fill_": lambda lib, x, value: x.masked_fill_(x == 1, value),
    "scatter": lambda lib, x, value: x.scatter(1, lib.tensor([[0]]), value),
    "pad": lambda lib, x, value: lib.nn.functional.pad(x, (1, 0), value=value),
    "an element": lambda lib, x, value: assigned(lib, x, lambda lib, x: (0, 0), value),
    "a slice": lambda lib, x, value: assigned(lib, x, lambda lib, x: slice(None), value),
    "a mask": lambda lib, x, value: assigned(lib, x, lambda lib, x: x == 1, value),
    "positions": lambda lib, x, value: assigned(
        lib, x, lambda lib, x: (first(lib), first(lib)), value
    ),
}
VALUES = (
    -1, -128, -129, -255, -256, -300, 127, 128, 255, 256, 1e10, -1e10, 1.5, -1.5, 70000.0, 2**40,
    float("inf"), float("nan"), True,
)  # fmt: skip
DTYPES = ("uint8", "int8", "int16", "int32", "bool", "float16", "bfloat16", "float32")


def outcome(lib: Any, operator: str, dtype: str, value: Any) -> Any:
    x = lib.ones(1, 3, dtype=getattr(lib, dtype))
    try:
        return str(OPERATORS[operator](lib, x, value).tolist())
    except Exception as error:  # noqa: BLE001 (its type is compared)
        return type(error).__name__


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_numbers_are_written_or_refused(operator: str, dtype: str) -> None:
    found = {value: outcome(flambeau, operator, dtype, value) for value in VALUES}
    assert found == {value: outcome(torch, operator, dtype, value) for value in VALUES}
