"""Operators over lists of tensors, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import flambeau
from flambeau.rare.foreach import _OF_ONE, _OPERANDS

RANDOM = np.random.default_rng(0)
FIRST = [RANDOM.uniform(0.1, 0.9, shape).astype(np.float32) for shape in ((2,), (1, 2))]
OTHERS = [RANDOM.uniform(0.1, 0.9, shape).astype(np.float32) for shape in ((2,), (1, 2))]
WHOLE = [np.array([3, 5])]

# The operands of each function: a list of lists of arrays, or what is passed as it is.
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *((name, (), {}) for name in sorted(_OF_ONE)),
    *(
        (name, operands, {})
        for name in (
            "add",
            "sub",
            "mul",
            "div",
            "pow",
            "clamp_min",
            "clamp_max",
            "maximum",
            "minimum",
        )
        for operands in ((0.5,), ([0.5, 2.0],), (OTHERS,))
    ),
    ("add", (OTHERS,), {"alpha": 0.5}),
    ("sub", (OTHERS,), {"alpha": 0.5}),
    ("lerp", (OTHERS, 0.25), {}),
    ("lerp", (OTHERS, [0.25, 0.75]), {}),
    ("lerp", (OTHERS, OTHERS), {}),
    ("addcmul", (OTHERS, OTHERS), {}),
    ("addcmul", (OTHERS, OTHERS, [2.0, 3.0]), {}),
    ("addcdiv", (OTHERS, OTHERS), {"value": 0.5}),
    ("norm", (), {}),
    ("norm", (1,), {}),
    ("norm", (float("inf"),), {}),
    ("copy_", (OTHERS,), {}),
]


def tensors(lib: Any, arrays: list[np.ndarray], grad: bool = False) -> list[Any]:
    return [lib.tensor(each.tolist()).requires_grad_(grad) for each in arrays]


def arguments(lib: Any, operands: tuple[Any, ...]) -> list[Any]:
    return [tensors(lib, each) if each is OTHERS else each for each in operands]


def computed(lib: Any, name: str, operands: tuple[Any, ...], options: Any, grad: bool) -> Any:
    given = tensors(lib, FIRST, grad)
    found = getattr(lib, f"_foreach_{name}")(given, *arguments(lib, operands), **options)
    kind = type(found)
    if grad:
        sum(each.sum() for each in found).backward()
        found = [each.grad for each in given]
    return kind, [(str(each.dtype).rpartition(".")[2], each.detach().numpy()) for each in found]


def compare(name: str, operands: tuple[Any, ...], options: Any, grad: bool = False) -> None:
    kind, found = computed(flambeau, name, operands, options, grad)
    expected_kind, expected = computed(torch, name, operands, options, grad)
    assert kind is expected_kind
    for (dtype, array), (expected_dtype, expected_array) in zip(found, expected, strict=True):
        assert dtype == expected_dtype
        np.testing.assert_allclose(array, expected_array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "operands", "options"), CALLS)
def test_new_tensors(name: str, operands: tuple[Any, ...], options: dict[str, Any]) -> None:
    compare(name, operands, options)


IN_PLACE = [
    call for call in CALLS if not call[0].endswith("_") and call[0] not in ("norm", "clone")
]


@pytest.mark.parametrize(("name", "operands", "options"), IN_PLACE)
def test_tensors_overwritten(name: str, operands: tuple[Any, ...], options: dict[str, Any]) -> None:
    compare(f"{name}_", operands, options)


@pytest.mark.parametrize(
    ("name", "operands"),
    [("exp", ()), ("add", (OTHERS,)), ("mul", (0.5,)), ("lerp", (OTHERS, 0.25)), ("norm", ())],
)
def test_gradients(name: str, operands: tuple[Any, ...]) -> None:
    compare(name, operands, {}, grad=True)


@pytest.mark.parametrize(
    ("name", "operands"),
    [("add", (1,)), ("add", (0.5,)), ("mul", ([2],)), ("div", (2,)), ("sqrt", ()), ("pow", (2,))],
)
def test_integers_are_promoted_as_in_pytorch(name: str, operands: tuple[Any, ...]) -> None:
    ours, theirs = (
        getattr(lib, f"_foreach_{name}")(tensors(lib, WHOLE), *operands)
        for lib in (flambeau, torch)
    )
    assert str(ours[0].dtype).rpartition(".")[2] == str(theirs[0].dtype).rpartition(".")[2]
    np.testing.assert_allclose(ours[0].numpy(), theirs[0].numpy(), rtol=1e-6)


def test_every_function_is_pytorchs() -> None:
    names = [*_OF_ONE, *_OPERANDS]
    assert [name for name in names if not hasattr(torch, f"_foreach_{name}")] == []


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib._foreach_add([], 1),
        lambda lib: lib._foreach_add([lib.ones(1)], [1, 2]),
        lambda lib: lib._foreach_add([lib.ones(1)], [lib.ones(1)] * 2),
        lambda lib: lib._foreach_add([lib.ones(1)]),
        lambda lib: lib._foreach_add(1, 1),
        lambda lib: lib._foreach_add([1], 1),
        lambda lib: lib._foreach_add_([lib.ones(1, requires_grad=True)], 1),
        lambda lib: lib._foreach_add_([lib.ones(1, dtype=lib.int64)], 0.5),
    ],
)
def test_what_is_refused_has_pytorchs_type_of_error(call: Any) -> None:
    with pytest.raises((RuntimeError, TypeError), match=r".") as theirs:
        call(torch)
    with pytest.raises(theirs.type, match=r"_foreach_add"):
        call(flambeau)
