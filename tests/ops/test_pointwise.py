"""Elementwise operators: values, gradients, operators of Python, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau import Tensor


def leaf(*values: float) -> Tensor:
    return flambeau.tensor(values, dtype=flambeau.float64, requires_grad=True)


def test_gradients_of_gradients() -> None:
    x = leaf(-1.5, 0.0, 2.0)
    (first,) = flambeau.autograd.grad((x.abs() ** 3).sum(), x, create_graph=True)
    (second,) = flambeau.autograd.grad(first.sum(), x)
    assert first.tolist() == [-6.75, 0.0, 12.0]
    assert second.tolist() == [9.0, 0.0, 12.0]


def test_the_gradient_of_a_sum_serves_every_number() -> None:
    x = flambeau.ones(3, requires_grad=True)
    kernel = (x + 0.5).grad_fn.kernel
    (x + 0.5).sum().backward()
    programs = len(kernel._gradients)
    for number in (0.1, 0.2, 0.3):
        (x + number).sum().backward()
    assert len(kernel._gradients) == programs


def test_numbers_of_any_size_are_one_program(all_compiled: None) -> None:
    x = flambeau.ones(3)
    kernel = flambeau.mul.op.kernel(())
    _ = x * 0.5
    programs = kernel.forward._cache_size()
    for number in (0.1, 0.2, 0.3):
        _ = x * number
    assert kernel.forward._cache_size() == programs


def test_operators_with_numbers_on_either_side() -> None:
    x = flambeau.tensor([1.0, 2.0, 4.0])
    assert (3 - x).tolist() == [2.0, 1.0, -1.0]
    assert (2 / x).tolist() == [2.0, 1.0, 0.5]
    assert (2**x).tolist() == [2.0, 4.0, 16.0]
    assert (7 // x).tolist() == [7.0, 3.0, 1.0]
    assert (7 % x).tolist() == [0.0, 1.0, 3.0]
    assert (np.float32(3) - x).tolist() == [2.0, 1.0, -1.0]
    assert (x - np.array([1.0, 1.0, 1.0], np.float32)).tolist() == [0.0, 1.0, 3.0]


def test_operators_leave_other_objects_to_their_own() -> None:
    class Other:
        def __radd__(self, other: Any) -> str:
            return "theirs"

    x = flambeau.ones(2)
    assert x + Other() == "theirs"
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "text"
    assert (x == "text") is False


def test_in_place_operators_keep_the_tensor_and_count_writes() -> None:
    x = flambeau.tensor([1.0, 2.0])
    same, version = x, x._version
    x += 1
    x *= 2
    x -= flambeau.ones(2)
    x /= 4
    assert x is same
    assert x._version == version + 4
    assert x.tolist() == [0.75, 1.25]


def test_in_place_keeps_the_dtype() -> None:
    x = flambeau.ones(2, dtype=flambeau.float16)
    x += flambeau.ones(2)
    assert x.dtype is flambeau.float16
    with pytest.raises(RuntimeError, match=r"float32.*int64"):
        flambeau.ones(2, dtype=flambeau.int64).add_(0.5)


def test_in_place_never_grows() -> None:
    with pytest.raises(RuntimeError, match=r"\[2, 3\].*\[3\]"):
        flambeau.ones(3).add_(flambeau.ones(2, 3))


def test_alpha() -> None:
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    y = flambeau.tensor([10.0, 20.0], requires_grad=True)
    flambeau.add(x, y, alpha=0.5).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.tolist(), y.grad.tolist()) == ([1.0, 1.0], [0.5, 0.5])
    with pytest.raises(RuntimeError, match="alpha"):
        flambeau.add(flambeau.tensor([1]), flambeau.tensor([1]), alpha=0.5)


def test_bools_are_not_subtracted() -> None:
    flags = flambeau.tensor([True, False])
    for compute in (lambda: flags - flags, lambda: 1 - flags, lambda: flags - 1, lambda: -flags):
        with pytest.raises(RuntimeError, match="bool"):
            compute()
    assert (flags + flags).tolist() == [True, False]


def test_floor_division_by_zero_is_infinite_for_floats() -> None:
    assert (flambeau.tensor([1.0, -1.0]) // 0).tolist() == [math.inf, -math.inf]


def test_operators_without_a_gradient_say_so() -> None:
    x = leaf(1.0, 2.0)
    for result in (x // 2, flambeau.heaviside(x, x), flambeau.heaviside(x, x.detach())):
        with pytest.raises(RuntimeError, match="derivative"):
            result.sum().backward()


def test_a_half_precision_product_rounds_once() -> None:
    x = flambeau.tensor([3.0], dtype=flambeau.float16)
    exact = np.float16(np.float32(3) * np.float32(0.1))
    assert (x * 0.1).item() == exact


def test_integers_have_no_negative_powers() -> None:
    with pytest.raises(RuntimeError, match="-1"):
        flambeau.tensor([2]) ** -1
    assert (flambeau.tensor([2, -1]) ** flambeau.tensor([-1, -3])).tolist() == [0, -1]


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 0.5, -1, 1.3])
def test_powers_of_numbers(exponent: float) -> None:
    x = leaf(0.5, 2.0)
    result = x**exponent
    result.sum().backward()
    assert x.grad is not None
    assert result.tolist() == pytest.approx([0.5**exponent, 2**exponent])
    assert x.grad.tolist() == pytest.approx(
        [exponent * 0.5 ** (exponent - 1), exponent * 2 ** (exponent - 1)]
    )


def test_the_gradient_passes_at_the_bounds_of_clamp() -> None:
    x = leaf(-1.0, 0.0, 0.5, 1.0, 2.0)
    x.clamp(0, 1).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    with pytest.raises(RuntimeError, match="min or max"):
        x.clamp()


def test_equal_elements_share_the_gradient_of_maximum() -> None:
    x, y = leaf(1.0, 3.0), leaf(1.0, 2.0)
    flambeau.maximum(x, y).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.5, 1.0], [0.5, 0.0])


def test_where() -> None:
    x = leaf(1.0, -1.0)
    flambeau.where(x > 0, x * 2, 0.0).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 0.0]
    with pytest.raises(RuntimeError, match="bool"):
        flambeau.where(flambeau.tensor([1, 0]), 1, 2)
    with pytest.raises(TypeError, match="both"):
        flambeau.where(x > 0, x)


def test_rounding_goes_to_even() -> None:
    assert flambeau.tensor([0.5, 1.5, 2.5, -0.5]).round().tolist() == [0.0, 2.0, 2.0, 0.0]
    assert flambeau.tensor([1.25, 123.0]).round(decimals=1).tolist() == pytest.approx([1.2, 123])


def test_bits() -> None:
    x = flambeau.tensor([12, 10])
    assert (x & 6).tolist() == [4, 2]
    assert (x | 1).tolist() == [13, 11]
    assert (x ^ x).tolist() == [0, 0]
    assert (~x).tolist() == [-13, -11]
    assert (x << 1).tolist() == [24, 20]
    assert (x >> 70).tolist() == [0, 0]
    with pytest.raises(TypeError, match="float32"):
        ~flambeau.ones(2)
    with pytest.raises(NotImplementedError, match="float32"):
        flambeau.ones(2) & 1


def test_complex_numbers() -> None:
    z = flambeau.complex(flambeau.tensor([3.0]), flambeau.tensor([4.0]))
    assert z.abs().tolist() == [5.0]
    assert z.conj().tolist() == [3 - 4j]
    assert flambeau.polar(z.abs(), z.angle()).tolist() == pytest.approx([3 + 4j])
    with pytest.raises(RuntimeError, match="one dtype"):
        flambeau.complex(flambeau.ones(1), flambeau.ones(1, dtype=flambeau.float64))


def test_results_of_meta_tensors_have_shape_and_dtype_only() -> None:
    x = flambeau.ones(2, 3, device="meta", requires_grad=True)
    result = (x * 2).clamp(min=0).exp()
    assert result.is_meta
    assert (tuple(result.shape), result.requires_grad) == ((2, 3), True)


def test_out_receives_the_result() -> None:
    x, out = flambeau.tensor([1.0, 2.0]), flambeau.empty(2)
    assert flambeau.add(x, 1, out=out) is out
    assert flambeau.mul(x, 3, out=out).tolist() == out.tolist() == [3.0, 6.0]


def test_second_names_are_the_same_functions() -> None:
    assert flambeau.multiply is flambeau.mul
    assert flambeau.clip is flambeau.clamp
    assert Tensor.true_divide is Tensor.div
    assert Tensor.absolute_ is Tensor.abs_


@pytest.mark.parametrize("kind", ["int64", "int32", "int8", "uint8"])
def test_powers_of_integers_wrap_around_for_exponents_of_every_size(kind):
    dtype = getattr(flambeau, kind)
    limits = flambeau.iinfo(dtype)
    bases, exponents = [0, 1, 2, 3, 5, 7], [0, 1, 6, 63, 64, 65, 100, 127, limits.max]
    expected = [
        [(base**exponent - limits.min) % 2**limits.bits + limits.min for exponent in exponents[:-1]]
        for base in bases
    ]
    found = flambeau.tensor(bases, dtype=dtype)[:, None] ** flambeau.tensor(exponents, dtype=dtype)
    assert found[:, :-1].tolist() == expected
    assert found[:3, -1].tolist() == [0, 1, 0]


def test_bessel_functions_have_their_derivatives_at_zero() -> None:
    x = flambeau.zeros(2, dtype=flambeau.float64, requires_grad=True)
    derivatives = ((flambeau.special.i0, (0.0, 0.5)), (flambeau.special.i1, (0.5, 0.0)))
    for function, expected in derivatives:
        (slope,) = flambeau.autograd.grad(function(x).sum(), x, create_graph=True)
        (curvature,) = flambeau.autograd.grad(slope.sum(), x)
        assert (slope[0].item(), curvature[0].item()) == expected
