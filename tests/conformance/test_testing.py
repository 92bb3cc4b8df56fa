"""`testing` as in PyTorch: what is close, the facts in the messages, and the elements drawn."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import flambeau

NAN, INF = float("nan"), float("inf")
# A number, an index, or a part of a path.
FACT = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*(?:e[+-]?\d+)?|inf\b|nan\b)")

# What is compared, and how.
CASES: dict[str, Callable[[Any], tuple[Any, Any, dict[str, Any]]]] = {
    "close": lambda lib: (lib.tensor([1.0, 2.0]), lib.tensor([1.0, 2.0 + 1e-6]), {}),
    "not close": lambda lib: (lib.tensor([[1.0, 2.0, 7.0]]), lib.tensor([[1.0, 4.0, 5.0]]), {}),
    "a number": lambda lib: (lib.tensor(1.5), lib.tensor(2.5), {}),
    "half": lambda lib: (lib.tensor([3.0, 5.0]).half(), lib.tensor([3.25, 4.0]).half(), {}),
    "brain": lambda lib: (lib.tensor([3.0, 5.0]).bfloat16(), lib.tensor([3.5, 5.0]).bfloat16(), {}),
    "double": lambda lib: (lib.tensor([3.0]).double(), lib.tensor([3.0 + 1e-6]).double(), {}),
    "complex": lambda lib: (lib.tensor([1 + 1j, 0j]), lib.tensor([1 + 2j, 0j]), {}),
    "complex number": lambda lib: (lib.tensor(1 + 1j), lib.tensor(1 + 2j), {}),
    "integers": lambda lib: (lib.tensor([[1], [5]]), lib.tensor([[1], [8]]), {}),
    "integers within": lambda lib: (lib.tensor([1, 5]), lib.tensor([1, 8]), {"rtol": 0, "atol": 3}),
    "integers beyond": lambda lib: (lib.tensor([1, 5]), lib.tensor([1, 8]), {"rtol": 0, "atol": 2}),
    "small integers": lambda lib: (
        lib.tensor([0, 255]).to(lib.uint8), lib.tensor([255, 0]).to(lib.uint8), {},
    ),
    "bools": lambda lib: (lib.tensor([True, False]), lib.tensor([True, True]), {}),
    "zero expected": lambda lib: (lib.tensor([1.0, 0.0]), lib.tensor([0.0, 0.0]), {}),
    "relative": lambda lib: (lib.tensor([2.0, 90.0]), lib.tensor([1.0, 100.0]), {}),
    "infinities": lambda lib: (lib.tensor([INF, -INF]), lib.tensor([INF, -INF]), {}),
    "other infinities": lambda lib: (lib.tensor([INF, 1.0]), lib.tensor([-INF, 1.0]), {}),
    "finite and infinite": lambda lib: (
        lib.tensor([1.0, 1.0]), lib.tensor([INF, 1.0]), {"rtol": 1.0, "atol": 1.0},
    ),
    "nan": lambda lib: (lib.tensor([1.0, NAN]), lib.tensor([1.0, NAN]), {}),
    "equal nan": lambda lib: (lib.tensor([1.0, NAN]), lib.tensor([1.0, NAN]), {"equal_nan": True}),
    "one nan": lambda lib: (lib.tensor([1.0, NAN]), lib.tensor([1.0, 1.0]), {"equal_nan": True}),
    "float8": lambda lib: (
        lib.tensor([1.0, 2.0]).to(lib.float8_e4m3fn),
        lib.tensor([1.0, 3.0]).to(lib.float8_e4m3fn), {},
    ),
    "float8 with tolerances": lambda lib: (
        lib.ones(1).to(lib.float8_e4m3fn),
        lib.ones(1).to(lib.float8_e4m3fn), {"rtol": 0.5, "atol": 0.25},
    ),
    "empty": lambda lib: (lib.ones(0, 2), lib.zeros(0, 2), {}),
    "shapes": lambda lib: (lib.ones(2, 3), lib.ones(3, 2), {}),
    "broadcast shapes": lambda lib: (lib.ones(1), lib.ones(()), {}),
    "dtypes": lambda lib: (lib.ones(2), lib.ones(2).double(), {}),
    "promoted": lambda lib: (lib.ones(2), lib.ones(2).double(), {"check_dtype": False}),
    "promoted, not close": lambda lib: (
        lib.ones(2) * 1.25, lib.ones(2).double(), {"check_dtype": False},
    ),
    "promoted unsigned": lambda lib: (
        lib.tensor([3, 4]).to(lib.uint32), lib.tensor([3, 4]).to(lib.int16), {"check_dtype": False},
    ),
    "devices": lambda lib: (lib.ones(2), lib.ones(2, device="meta"), {}),
    "any device": lambda lib: (lib.ones(2), lib.ones(2, device="meta"), {"check_device": False}),
    "meta": lambda lib: (lib.ones(2, device="meta"), lib.zeros(2, device="meta"), {}),
    "meta shapes": lambda lib: (lib.ones(2, device="meta"), lib.ones(3, device="meta"), {}),
    "python floats": lambda lib: (1.0, 1.0 + 1e-8, {}),
    "python floats, not close": lambda lib: (1.0, 1.25, {}),
    "python integers": lambda lib: (3, 5, {}),
    "python integers within": lambda lib: (3, 5, {"rtol": 0.5, "atol": 0}),
    "python complex": lambda lib: (3 + 4j, 0j, {}),
    "python types": lambda lib: (1, 1.0, {}),
    "python types, any": lambda lib: (1, 1.0, {"check_dtype": False}),
    "python nan": lambda lib: (NAN, NAN, {}),
    "python equal nan": lambda lib: (NAN, NAN, {"equal_nan": True}),
    "python infinities": lambda lib: (INF, INF, {}),
    "numpy numbers": lambda lib: (np.float32(1.0), np.float64(1.25), {}),
    "numpy and python": lambda lib: (np.int8(3), 3, {}),
    "python bools": lambda lib: (True, np.False_, {}),
    "bools have no tolerance": lambda lib: (True, False, {"rtol": 3.0, "atol": 3.0}),
    "none": lambda lib: (None, None, {}),
    "none and a number": lambda lib: (None, 1, {}),
    "tensor and number": lambda lib: (lib.tensor(1.0), 1.0, {}),
    "tensor and array": lambda lib: (lib.ones(2), np.ones(2, np.float32), {}),
    "arrays": lambda lib: (np.array([1.0, 2.0]), np.array([1.0, 2.5]), {}),
    "integer arrays": lambda lib: (np.arange(3), np.arange(3), {}),
    "parameter": lambda lib: (lib.nn.Parameter(lib.ones(2)), lib.ones(2), {}),
    "no subclasses": lambda lib: (
        lib.nn.Parameter(lib.ones(2)), lib.ones(2), {"allow_subclasses": False},
    ),
    "text": lambda lib: ("a", "a", {}),
    "sets": lambda lib: ({1}, {1}, {}),
    "lists": lambda lib: ([1, lib.ones(2)], (1, lib.ones(2)), {}),
    "nested": lambda lib: ([1, {"a": [lib.ones(1), 7]}], [1, {"a": [lib.ones(1), 5]}], {}),
    "lengths": lambda lib: ([[1, 2, 3]], [[1, 2]], {}),
    "empty lists": lambda lib: ([], (), {}),
    "keys": lambda lib: ({"a": 1}, {"a": 1, "b": 2}, {}),
    "list and mapping": lambda lib: ([1], {0: 1}, {}),
    "form before elements": lambda lib: ([1, "a"], [2, "a"], {}),
    "one tolerance": lambda lib: (1.0, 1.0, {"rtol": 1.0}),
    "negative": lambda lib: (lib.ones(1), lib.ones(1), {"rtol": -1.0, "atol": 0.0}),
    "strides": lambda lib: (lib.ones(2, 2), lib.ones(2, 2), {"check_stride": True}),
    "message": lambda lib: (1, 2, {"msg": "7 words"}),
    "made message": lambda lib: ([1], [2], {"msg": lambda text: "9" + " " + text}),
    "message about form": lambda lib: ([1], [2, 3], {"msg": "7 words"}),
}  # fmt: skip


def outcome(lib: Any, case: Callable[[Any], Any]) -> tuple[str, list[float]]:
    """The type of the error and the numbers in its message, in order."""
    actual, expected, options = case(lib)
    try:
        with warnings.catch_warnings():
            # PyTorch's operators warn of some of this.
            warnings.simplefilter("ignore" if lib is torch else "error")
            lib.testing.assert_close(actual, expected, **options)
    except (AssertionError, TypeError, ValueError, RuntimeError) as error:
        return type(error).__name__, [float(each) for each in FACT.findall(str(error))]
    return "close", []


# In these messages PyTorch shows all it knows, or what should have been asked for.
OTHER_FACTS = {"negative", "float8 with tolerances"}


def are_among(facts: list[float], found: list[float]) -> bool:
    """Whether each number of ``facts``, as often as it occurs, is among ``found``."""
    left = list(found)
    for fact in facts:
        same = [each for each in left if each == pytest.approx(fact, rel=1e-6, nan_ok=True)]
        if not same:
            return False
        left.remove(same[0])
    return True


@pytest.mark.parametrize("name", CASES)
def test_what_is_close_and_the_facts_of_what_is_not(name: str) -> None:
    kind, facts = outcome(flambeau, CASES[name])
    expected_kind, expected_facts = outcome(torch, CASES[name])
    assert kind == expected_kind
    if name not in OTHER_FACTS:
        assert are_among(expected_facts, facts)


DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


def drawn(lib: Any, dtype: str, **options: Any) -> np.ndarray:
    lib.manual_seed(0)
    made = lib.testing.make_tensor(2, 9, dtype=getattr(lib, dtype), device="cpu", **options)
    made = made.double() if made.is_floating_point() else made
    return made.numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", [{}, {"low": -3.5, "high": 2.5}, {"noncontiguous": True}])
def test_made_tensors_have_pytorchs_elements(dtype: str, options: dict[str, Any]) -> None:
    assert np.array_equal(drawn(flambeau, dtype, **options), drawn(torch, dtype, **options))


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16"])
def test_zeros_are_excluded(dtype: str) -> None:
    options = {"low": 0, "high": 2, "exclude_zero": True}
    assert np.array_equal(drawn(flambeau, dtype, **options), drawn(torch, dtype, **options))


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32", "bfloat16", "complex64"])
def test_bounds_beyond_the_dtype_are_those_of_the_dtype(dtype: str) -> None:
    wide = {"low": -INF, "high": INF}
    assert np.array_equal(drawn(flambeau, dtype, **wide), drawn(torch, dtype, **wide))


@pytest.mark.parametrize(
    "options",
    [
        {"low": 3, "high": 2}, {"low": NAN}, {"dtype": "uint8", "low": -5, "high": -2},
        {"dtype": "int8", "requires_grad": True}, {"dtype": "float32", "low": 1e300, "high": INF},
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_refused_as_in_pytorch(options: dict[str, Any]) -> None:
    options = {"dtype": "float32", **options}
    for lib in (torch, flambeau):
        with pytest.raises(ValueError, match=r"less than|below|NaN|only supports|are from|grad"):
            drawn(lib, **options)
