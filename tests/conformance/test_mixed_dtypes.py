"""Operands of several dtypes, and a single value for many elements, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

LOSSES = ["huber_loss", "soft_margin_loss", "hinge_embedding_loss", "smooth_l1_loss", "mse_loss"]
PAIRS = [("float32", "float64"), ("float64", "float32"), ("float16", "float32")]


def outcome(lib: Any, use: Any) -> Any:
    """The dtype, shape and elements of a result, or the type of the error."""
    try:
        found = use(lib)
    except Exception as error:  # noqa: BLE001
        return type(error).__name__
    return str(found.dtype).partition(".")[2], found.double().detach().numpy()


def agree(use: Any) -> None:
    ours, theirs = outcome(flambeau, use), outcome(torch, use)
    assert ours[0] == theirs[0]
    if isinstance(ours, tuple):
        assert ours[1].shape == theirs[1].shape
        np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-3)


@pytest.mark.parametrize("reduction", ["none", "mean"])
@pytest.mark.parametrize(("of", "with_"), PAIRS)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.filterwarnings("ignore")
def test_losses(name, of, with_, reduction):
    def use(lib: Any) -> Any:
        input = lib.tensor([0.5, 2.0], dtype=getattr(lib, of))
        target = lib.tensor([1.0, 1.0], dtype=getattr(lib, with_))
        return getattr(lib.nn.functional, name)(input, target, reduction=reduction)

    agree(use)


@pytest.mark.parametrize(
    ("input", "vec1", "vec2"),
    [
        ("float32", "float16", "float16"),
        ("float64", "float32", "float16"),
        ("int64", "float32", "float32"),
        ("float32", "float64", "float64"),
    ],
)
def test_addr(input, vec1, vec2):
    def use(lib: Any) -> Any:
        of = lambda shape, dtype: lib.ones(shape, dtype=getattr(lib, dtype))  # noqa: E731
        return lib.addr(of((2, 3), input), of(2, vec1), of(3, vec2))

    agree(use)


CHOICES = {
    "mask": lambda lib: lib.tensor([True, False, True]),
    "mask of nothing": lambda lib: lib.tensor([False, False, False]),
    "mask behind a slice": lambda lib: (slice(None), lib.tensor([True, False, True])),
    "mask without dimensions": lambda lib: lib.tensor(True),
    "positions": lambda lib: lib.tensor([0, 2]),
}
VALUES = {"a number": 5.0, "one": [5.0], "one in a matrix": [[5.0]], "two": [5.0, 6.0]}


@pytest.mark.parametrize("into", ["bfloat16", "int64"])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("choice", CHOICES)
def test_one_value_of_another_dtype_is_a_fill(choice, value, into):
    def use(lib: Any) -> Any:
        target = lib.zeros((2, 3) if "slice" in choice else 3, dtype=getattr(lib, into))
        target[CHOICES[choice](lib)] = lib.tensor(VALUES[value])
        return target

    agree(use)


def test_gradients_of_a_fill_flow_to_the_value():
    def use(lib: Any) -> Any:
        value = lib.tensor([5.0], requires_grad=True)
        target = lib.zeros(3, dtype=lib.float64)
        target[lib.tensor([True, False, True])] = value
        target.sum().backward()
        return value.grad

    agree(use)


@pytest.mark.parametrize("shape", [(1, 4), (4,), (2, 4), ()])
@pytest.mark.parametrize("name", ["cov", "corrcoef"])
@pytest.mark.filterwarnings("ignore")
def test_one_variable_has_a_variance(name, shape):
    def use(lib: Any) -> Any:
        numbers = lib.arange(8.0).square()[: max(1, 4 * len(shape))]
        count = 1
        for size in shape:
            count *= size
        found = getattr(lib, name)(numbers[:count].reshape(shape))
        return found.nan_to_num(-1).mul(100).round()

    agree(use)


SOURCES = [((3, 3), (3,)), ((3, 3), (1, 3, 1)), ((3,), (1, 1)), ((3, 3), (2, 3)), ((3, 3), (1, 2)),
           ((2, 3), (1, 3)), ((3,), ()), ((), (1,))]  # fmt: skip


@pytest.mark.parametrize(("shape", "source"), SOURCES)
def test_index_copy_of_other_dimensions(shape, source):
    agree(lambda lib: lib.zeros(shape).index_copy_(0, lib.tensor([0]), lib.ones(source)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("index", [0, [0], [0, 0]])
@pytest.mark.parametrize("name", ["index_add_", "index_reduce_"])
@pytest.mark.parametrize(("shape", "source"), [*SOURCES, ((1,), ()), ((), ()), ((2, 3), (3,))])
def test_index_add_of_other_dimensions(shape, source, name, index):
    def use(lib: Any) -> Any:
        how = ["prod"] if name == "index_reduce_" else []
        return getattr(lib.zeros(shape), name)(0, lib.tensor(index), lib.ones(source), *how)

    agree(use)


@pytest.mark.parametrize("index", [[], 0, [0], [0, 0], [1]])
def test_index_select_of_a_tensor_without_dimensions(index):
    positions = lambda lib: lib.tensor(index, dtype=lib.int64)  # noqa: E731
    agree(lambda lib: lib.tensor(2.0).index_select(0, positions(lib)))


@pytest.mark.parametrize("target", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_hinge_embedding_loss_has_the_dtype_of_its_input(shape, target):
    def use(lib: Any) -> Any:
        labels = lib.tensor([1.0, -1.0], dtype=getattr(lib, target))
        return lib.nn.functional.hinge_embedding_loss(lib.full(shape, 0.25), labels)

    agree(use)


def test_a_view_of_bools_from_no_grad_takes_values_that_require_grad():
    def use(lib: Any) -> Any:
        values = lib.tensor([0.0, 2.0], requires_grad=True)
        with lib.no_grad():
            view = lib.zeros(2, dtype=lib.bool)[...]
        view[...] = values
        return view.clone()

    agree(use)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", [0, 1])
def test_an_operand_is_not_resized_to_hold_the_result(place):
    def use(lib: Any) -> Any:
        operands = [lib.ones(3, 3), lib.ones(3)]
        operands = operands if place else operands[::-1]
        return lib.add(*operands, out=operands[place])

    agree(use)
