"""One declaration makes a function, a method and their variants, and compiles only when it must."""

from __future__ import annotations

import inspect

import jax.numpy as jnp
import pytest

import flambeau
from flambeau.core.kernels.kinds import Array, Arrays, Operand
from flambeau.core.operators.op import op


@op(promote="type")
def scaled_sum(input: Operand, other: Operand, *, times: int = 1) -> Array:
    """``times * (input + other)``."""
    return times * (input + other)


@op
def total(tensors: Arrays, dim: int = 0) -> Array:
    """The sum of all of ``tensors`` along ``dim``."""
    return sum(jnp.sum(each, dim) for each in tensors)


X = flambeau.tensor([1.0, 2.0])


def test_arguments_by_position_and_name():
    assert scaled_sum(X, 1).tolist() == [2.0, 3.0]
    assert scaled_sum(input=X, other=1, times=2).tolist() == [4.0, 6.0]
    assert total([X, X]).item() == 6.0
    assert total((X, X), dim=-1).item() == 6.0
    assert flambeau.sum(X, axis=0, keepdims=True).shape == (1,)
    assert list(inspect.signature(scaled_sum).parameters) == ["input", "other", "times"]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: scaled_sum(X), "needs the argument 'other'"),
        (lambda: scaled_sum(X, 1, 2), "2 positional"),
        (lambda: scaled_sum(X, 1, speed=2), r"no argument 'speed'.*times"),
        (lambda: scaled_sum(X, 1, other=2), "'other' twice"),
        (lambda: scaled_sum(X, "a"), "str"),
        (lambda: total(3), r"tensors must be a list.*int"),
        (lambda: total([X, 3]), r"tensors\[1\] must be a Tensor.*int"),
    ],
)
def test_bad_arguments(call, match):
    with pytest.raises(TypeError, match=match):
        call()


def test_numbers_are_data_and_static_arguments_are_structure(all_compiled):
    kernels = scaled_sum.op.kernels
    kernels.clear()
    for number in (0.5, 1.5, 2.5):
        scaled_sum(X, number)
    (kernel,) = kernels.values()
    assert kernel.forward._cache_size() == 1
    scaled_sum(X, 0.5, times=3)
    assert len(kernels) == 2


def test_indices_are_data():
    table = flambeau.arange(20.0)
    from flambeau.core.values.view import reader

    table[0].item()
    before = len(reader.results)
    for i in range(1, 20):
        assert table[i].item() == i
    assert len(reader.results) == before


def test_out_receives_the_result():
    out = flambeau.zeros(2)
    assert flambeau.add(X, X, out=out) is out
    assert out.tolist() == [2.0, 4.0]
    empty = flambeau.empty(0)
    flambeau.exp(flambeau.zeros(3), out=empty)
    assert empty.tolist() == [1.0, 1.0, 1.0]
    with pytest.warns(UserWarning, match="resized"):
        flambeau.exp(flambeau.zeros(3), out=flambeau.zeros(2))
    with pytest.raises(RuntimeError, match=r"float32.*int64"):
        flambeau.exp(X, out=flambeau.zeros(2, dtype=flambeau.int64))
    with pytest.raises(RuntimeError, match="gradients"):
        flambeau.exp(X, out=flambeau.zeros(2, requires_grad=True))


def test_in_place_keeps_dtype_and_shape():
    x = flambeau.tensor([1, 2])
    assert x.mul_(3) is x
    with pytest.raises(RuntimeError, match=r"float32.*int64"):
        x.mul_(0.5)
    with pytest.raises(RuntimeError, match=r"\[2, 2\].*\[2\]"):
        x.add_(flambeau.ones(2, 2, dtype=flambeau.int64))
    assert x.tolist() == [3, 6]


def test_shapes_that_do_not_fit():
    with pytest.raises(RuntimeError, match=r"2.*3.*dimension 0"):
        X + flambeau.ones(3)
    with pytest.raises(RuntimeError, match=r"2.*3"):
        flambeau.ones(1, 2) @ flambeau.ones(3, 1)


def test_foreign_operands():
    import numpy as np

    assert (X + np.float32(1)).dtype is flambeau.float32
    assert (X + np.ones(2, np.float32)).tolist() == [2.0, 3.0]
    assert (X + jnp.ones(2, jnp.float32)).tolist() == [2.0, 3.0]
    assert (np.float32(1) + X).tolist() == [2.0, 3.0]
