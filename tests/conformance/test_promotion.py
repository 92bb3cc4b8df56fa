"""Type promotion against PyTorch, over all pairs of dtypes and kinds of operands.

Ours runs on the meta device, where an operator costs no compilation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import flambeau

DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
]  # fmt: skip
UNSIGNED = ["uint16", "uint32", "uint64"]
NUMBERS: list[Any] = [True, 2, 2.5, 1j]

OPERATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda lib, x, y: x + y,
    "mul": lambda lib, x, y: x * y,
    "div": lambda lib, x, y: x / y,
    "eq": lambda lib, x, y: x == y,
    "lt": lambda lib, x, y: x < y,
    "pow": lambda lib, x, y: x**y,
    "atan2": lambda lib, x, y: lib.atan2(x, y),
    "maximum": lambda lib, x, y: lib.maximum(x, y),
    "where": lambda lib, x, y: lib.where(lib.ones((), dtype=lib.bool, device=x.device), x, y),
}


pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support")


def check(compute: Callable[..., Any], ours: tuple[Any, Any], theirs: tuple[Any, Any]) -> None:
    """Check that both libraries give the same dtype, or refuse."""
    if "complex32" in str(torch.result_type(*theirs)):
        return  # PyTorch has a half-precision complex type, and few operators for it
    found, expected = outcome(compute, flambeau, *ours), outcome(compute, torch, *theirs)
    assert found == expected, [getattr(each, "dtype", each) for each in theirs]


def outcome(compute: Callable[..., Any], lib: Any, *operands: Any) -> str:
    """The dtype of the result, or that the operands are refused."""
    try:
        return name_of(compute(lib, *operands).dtype)
    except (RuntimeError, TypeError):
        return "refused"


def name_of(dtype: Any) -> str:
    """The name of a dtype of either library; complex64 stands for a half-precision complex one."""
    return str(dtype).split(".")[-1].replace("complex32", "complex64")


def tensors(lib: Any, shape: tuple[int, ...], names: list[str]) -> list[Any]:
    device = "cpu" if lib is torch else "meta"
    return [lib.ones(shape, dtype=getattr(lib, name), device=device) for name in names]


@pytest.mark.parametrize("shapes", [((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())], ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_tensors(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    compute = OPERATORS[name]
    left, right = (tensors(flambeau, shape, DTYPES) for shape in shapes)
    for x, expected_x in zip(left, tensors(torch, shapes[0], DTYPES), strict=True):
        for y, expected_y in zip(right, tensors(torch, shapes[1], DTYPES), strict=True):
            check(compute, (x, y), (expected_x, expected_y))


@pytest.mark.parametrize("shape", [(2,), ()], ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_numbers(name: str, shape: tuple[int, ...]) -> None:
    compute = OPERATORS[name]
    ours, theirs = tensors(flambeau, shape, DTYPES), tensors(torch, shape, DTYPES)
    for x, expected_x in zip(ours, theirs, strict=True):
        for number in NUMBERS:
            # A tensor alone is what PyTorch's maximum and atan2 compare with.
            if name in ("maximum", "atan2"):
                continue
            check(compute, (x, number), (expected_x, number))


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "bfloat16"])
def test_numbers_follow_the_default_dtype(name: str) -> None:
    before = flambeau.get_default_dtype(), torch.get_default_dtype()
    try:
        flambeau.set_default_dtype(getattr(flambeau, name))
        torch.set_default_dtype(getattr(torch, name))
        ours, theirs = tensors(flambeau, (2,), DTYPES), tensors(torch, (2,), DTYPES)
        for compute in (OPERATORS["add"], OPERATORS["div"]):
            for x, expected_x in zip(ours, theirs, strict=True):
                for number in NUMBERS:
                    check(compute, (x, number), (expected_x, number))
    finally:
        flambeau.set_default_dtype(before[0])
        torch.set_default_dtype(before[1])


def test_promote_types() -> None:
    names = DTYPES + UNSIGNED
    for first in names:
        for second in names:
            try:
                expected = torch.promote_types(getattr(torch, first), getattr(torch, second))
            except RuntimeError:
                continue  # PyTorch mixes unsigned types with nothing, we where no value is lost
            found = flambeau.promote_types(getattr(flambeau, first), getattr(flambeau, second))
            assert found.name == name_of(expected), (first, second)


def test_can_cast() -> None:
    names = DTYPES + UNSIGNED
    for first in names:
        for second in names:
            expected = torch.can_cast(getattr(torch, first), getattr(torch, second))
            found = flambeau.can_cast(getattr(flambeau, first), getattr(flambeau, second))
            assert found == expected, (first, second)


def test_result_type() -> None:
    for name in DTYPES:
        for other in [*NUMBERS, *DTYPES]:
            found, expected = (
                lib.result_type(
                    lib.ones(2, dtype=getattr(lib, name)),
                    lib.ones((), dtype=getattr(lib, other)) if isinstance(other, str) else other,
                )
                for lib in (flambeau, torch)
            )
            assert name_of(found) == name_of(expected), (name, other)
    assert flambeau.result_type(1, 2.5) is flambeau.float32
