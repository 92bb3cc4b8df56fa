"""Dtypes of elements; a mask is a number, and XLA's simplifier changes no special value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import flambeau
from flambeau import Tensor

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0, 3e38, 1e-30, 0.5, 100.0]

#: Expressions of a number, another and whether a third is positive, as NumPy has them too.
EXPRESSIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "x * mask": lambda x, y, mask: x * mask,
    "mask * x": lambda x, y, mask: mask * x,
    "x * ~mask": lambda x, y, mask: x * ~mask,
    "x * (y > 0)": lambda x, y, mask: x * (y > 0),
    "x * (mask + 0.0)": lambda x, y, mask: x * (mask + 0.0),
    "x * (1 - mask)": lambda x, y, mask: x * (1.0 - mask * 1.0),
    "x * mask * mask": lambda x, y, mask: x * mask * (mask * mask),
    "sum of x * mask": lambda x, y, mask: (x * mask).sum(),
    "x * 0": lambda x, y, mask: x * 0,
    "x - x": lambda x, y, mask: x - x,
    "x / x": lambda x, y, mask: x / x,
    "x / mask": lambda x, y, mask: x / mask,
    "x + y - y": lambda x, y, mask: x + y - y,
    "x + 1e8 - 1e8": lambda x, y, mask: x + 1e8 - 1e8,
    "x * 1e30 * 1e30": lambda x, y, mask: x * 1e30 * 1e30,
    "x / 1e30 / 1e30": lambda x, y, mask: x / 1e30 / 1e30,
    "x / y / y": lambda x, y, mask: x / y / y,
    "x / x / (x / x)": lambda x, y, mask: x / x / (x / x),
    "x * y / y": lambda x, y, mask: x * y / y,
    "-x": lambda x, y, mask: -x,
    "x >= x": lambda x, y, mask: x >= x,
    "x == x": lambda x, y, mask: x == x,
    "x * x >= 0": lambda x, y, mask: x * x >= 0,
    "0 <= abs(x)": lambda x, y, mask: abs(x) <= 0,
    "abs(x) < 0": lambda x, y, mask: abs(x) < 0,
    "not x < y": lambda x, y, mask: ~(x < y),
    "x < y or x >= y": lambda x, y, mask: (x < y) | (x >= y),
}


@pytest.fixture(scope="module")
def values() -> tuple[Any, Any, Any]:
    x, y = (each.reshape(-1).astype(np.float32) for each in np.meshgrid(SPECIAL, SPECIAL))
    return x, y, np.arange(x.size) % 3 == 0


def test_compiled_expressions_of_special_values_are_numpy_s(values: Any) -> None:
    names = list(EXPRESSIONS)
    compiled = flambeau.compile(lambda *given: [EXPRESSIONS[name](*given) for name in names])
    for name, found in zip(names, compiled(*map(flambeau.tensor, values)), strict=True):
        with np.errstate(all="ignore"):
            expected = EXPRESSIONS[name](*values)
        if expected.dtype != bool:
            expected = np.where(
                abs(expected) < np.finfo(np.float32).tiny, np.copysign(0, expected), expected
            )
        np.testing.assert_array_equal(found, expected, err_msg=name)
        if found.is_floating_point() and found.ndim:
            zero = expected == 0
            signs = np.signbit(found.numpy())[zero]
            np.testing.assert_array_equal(signs, np.signbit(expected)[zero], err_msg=name)


@pytest.mark.parametrize(
    "name", ["log of a power", "log of a root", "exp of a log", "max", "where"]
)
def test_functions_of_special_values_are_eager_mode_s(name: str, values: Any) -> None:
    run: Callable[[Tensor, Tensor, Tensor], Tensor] = {
        "log of a power": lambda x, y, mask: (x**2.5).log() + (x**y).log(),
        "log of a root": lambda x, y, mask: x.rsqrt().log() + (x**-0.5).log(),
        "exp of a log": lambda x, y, mask: x.log().exp(),
        "max": lambda x, y, mask: flambeau.maximum(x, y) - flambeau.minimum(x, x * mask),
        "where": lambda x, y, mask: flambeau.where(x > y, x, y) * flambeau.where(mask, 1.0, 0.0),
    }[name]
    given = tuple(map(flambeau.tensor, values))
    np.testing.assert_allclose(flambeau.compile(run)(*given), run(*given), 1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("convert", [False, True])
def test_a_mask_keeps_nan_in_every_dtype(dtype: str, convert: bool) -> None:
    x = flambeau.tensor([float("nan"), float("inf"), 1.0, 2.0], dtype=getattr(flambeau, dtype))
    mask = flambeau.tensor([False, False, False, True])

    def run(x: Tensor, mask: Tensor) -> Tensor:
        return x * (mask.to(x.dtype) if convert else mask)

    for each in (run, flambeau.compile(run)):
        assert each(x, mask).isnan().tolist() == [True, True, False, False]


def test_a_compiled_masked_mean_shows_nan() -> None:
    def loss(p: Tensor, y: Tensor, lengths: Tensor) -> Tensor:
        losses = ((p - y) ** 2).mean(-1)
        mask = (flambeau.arange(4)[None] < lengths[:, None]).float()
        return (losses * mask).sum() / mask.sum()

    y = flambeau.ones(1, 4, 3)
    y[0, 3] = float("nan")
    assert flambeau.compile(loss)(flambeau.zeros(1, 4, 3), y, flambeau.tensor([2])).isnan()


def test_a_gradient_by_a_mask_is_a_product() -> None:
    x = flambeau.ones(3)
    cotangent = flambeau.tensor([float("inf"), 2.0, float("nan")])

    def gradient(x: Tensor, mask: Tensor, cotangent: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        return flambeau.autograd.grad(x * mask, x, cotangent)[0]

    mask = flambeau.tensor([False, True, False])
    for run in (gradient, flambeau.compile(gradient)):
        np.testing.assert_array_equal(run(x, mask, cotangent), [np.nan, 2.0, np.nan])


MESSAGE = "discards the imaginary part"


@pytest.mark.parametrize(
    "convert",
    [
        lambda c, x: c.to(flambeau.float64),
        lambda c, x: c.float(),
        lambda c, x: c.int(),
        lambda c, x: c.type_as(x),
        lambda c, x: x.copy_(c),
        lambda c, x: x.__setitem__(0, c[0]),
        lambda c, x: x.__setitem__(slice(1), c[:1]),
        lambda c, x: c.sum(dtype=flambeau.float32),
        lambda c, x: c.cumsum(0, dtype=flambeau.float32),
        lambda c, x: flambeau.as_tensor(c, dtype=flambeau.float32),
        lambda c, x: flambeau.nn.ParameterList([flambeau.nn.Parameter(c)]).to(flambeau.float64),
    ],
)
def test_a_complex_tensor_converted_to_real_warns(convert: Callable[..., Any]) -> None:
    for size in (5, 6):
        c = flambeau.ones(size, dtype=flambeau.complex64) * 1j
        with pytest.warns(UserWarning, match=MESSAGE):
            convert(c, flambeau.zeros(size))


def test_a_compiled_conversion_to_real_warns_and_takes_the_real_part() -> None:
    c = flambeau.tensor([3 + 1j])
    with pytest.warns(UserWarning, match=MESSAGE):
        assert flambeau.compile(lambda c: c.float())(c).tolist() == [3.0]


def test_no_part_is_lost_of_real_parts_bools_and_gradients() -> None:
    c = flambeau.tensor([1j, 0j, 1 + 0j])
    assert c.bool().tolist() == [True, False, True]
    assert c.real.double().tolist() == [0.0, 0.0, 1.0]
    x = flambeau.ones(3, requires_grad=True)
    (x * c).sum().abs().backward()
    assert x.grad is not None
