"""`hash_tensor` gives PyTorch's numbers, which PyTorch itself cannot print."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import flambeau

INF, NAN = float("inf"), float("nan")
FLOATS = [[0.1, -2.5, 7e-41], [INF, -0.0, 3e-8], [1e-320, -INF, 60000.0], [NAN, -1e-40, 0.0]]
WHOLE = [[0, 1, 2], [3, 127, 5], [6, 7, 8], [9, 10, 11]]
KINDS = {
    "float64": FLOATS, "float32": FLOATS, "bfloat16": FLOATS, "float16": FLOATS, "bool": WHOLE,
    "uint8": WHOLE, "int8": WHOLE, "int16": WHOLE, "int32": WHOLE, "int64": WHOLE, "uint16": WHOLE,
    "uint32": WHOLE, "uint64": WHOLE, "complex64": WHOLE, "float8_e4m3fn": WHOLE,
}  # fmt: skip
ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "all": ((), {}), "rows": ((1,), {}), "columns, kept": ((0,), {"keepdim": True}),
    "both": (((0, 1),), {}), "none": (((),), {"keepdim": True}),
    "all, kept": ((), {"keepdim": True}), "by name": ((), {"dim": [-1], "mode": 0}),
    "twice": (((1, -1),), {}), "beyond": ((2,), {}),
    "of no mode": ((), {"mode": 2}),
}  # fmt: skip


def outcome(lib: Any, values: Any, dtype: str, arguments: str) -> Any:
    # Made of numbers, since XLA's conversions make zeros of what is subnormal.
    tensor = lib.tensor(values, dtype=getattr(lib, dtype)).reshape(-1, 3)
    positional, named = ARGUMENTS[arguments]
    try:
        found = lib.hash_tensor(tensor, *positional, **named)
    except (RuntimeError, IndexError, NotImplementedError) as error:
        return type(error)
    assert found.dtype == lib.uint64
    return found.tolist()


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("arguments", ["all", "rows"])
def test_the_hash_is_pytorchs(dtype: str, arguments: str) -> None:
    ours = outcome(flambeau, KINDS[dtype], dtype, arguments)
    assert ours == outcome(torch, KINDS[dtype], dtype, arguments)


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("values", [WHOLE, []], ids=["some", "empty"])
def test_dimensions_are_reduced_as_in_pytorch(arguments: str, values: Any) -> None:
    ours = outcome(flambeau, values, "int64", arguments)
    assert ours == outcome(torch, values, "int64", arguments)
