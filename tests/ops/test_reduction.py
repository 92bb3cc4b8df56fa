"""Reductions, running sums, softmax and quantiles: values, gradients at kinks, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

import flambeau
from flambeau import Tensor


def leaf(values: object) -> Tensor:
    return flambeau.tensor(values, dtype=flambeau.float64, requires_grad=True)


def gradient(of: Tensor, by: Tensor) -> object:
    (found,) = flambeau.autograd.grad(of.sum(), by)
    return found.tolist()


# XLA on the CPU takes subnormal numbers for zero.
matrices = numpy_strategies.arrays(
    np.float64, (2, 3), elements=st.floats(-100, 100, allow_subnormal=False)
)


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "amax", "amin", "all", "any"])
@given(matrices)
def test_reductions_are_numpys(name: str, dim: object, values: np.ndarray) -> None:
    options = {} if dim is None else {"dim": dim}
    found = getattr(flambeau, name)(flambeau.tensor(values), **options)
    expected = getattr(np, name)(
        values, axis=dim, **({"ddof": 1} if name in ("var", "std") else {})
    )
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-8)


def test_a_dimension_that_is_not_there() -> None:
    x = flambeau.ones(2, 3)
    for name in ("sum", "mean", "amax", "argmax", "cumsum", "softmax", "sort", "max", "prod"):
        with pytest.raises(IndexError, match=r"\[-2, 1\], but got 2"):
            getattr(x, name)(2)


def test_a_dimension_named_twice() -> None:
    with pytest.raises(RuntimeError, match="1"):
        flambeau.ones(2, 3).sum((1, -1))


def test_integers_are_summed_as_int64_and_have_no_mean() -> None:
    x = flambeau.tensor([100, 100], dtype=flambeau.int8)
    assert x.sum().item() == 200
    assert x.sum().dtype is flambeau.int64
    assert x.sum(dtype=flambeau.int8).item() == -56
    with pytest.raises(RuntimeError, match="int8"):
        x.mean()
    assert x.mean(dtype=flambeau.float32).item() == 100


def test_nothing_to_reduce() -> None:
    x = flambeau.empty(2, 0)
    assert x.sum().item() == 0
    assert x.prod().item() == 1
    assert math.isnan(x.mean().item())
    assert x.sum(0).tolist() == []
    assert x.any().item() is False
    for compute in (lambda: x.max(), lambda: x.amax(), lambda: x.max(1), lambda: x.argmin()):
        with pytest.raises((RuntimeError, IndexError), match=r"\[2, 0\]"):
            compute()


def test_a_0d_tensor_has_dimensions_0_and_minus_1() -> None:
    x = flambeau.tensor(2.0)
    assert x.sum(0).item() == x.softmax(-1).item() * 2 == x.max(0).values.item() == 2
    with pytest.raises(IndexError):
        x.sum(1)


def test_a_constant_has_a_standard_deviation_with_gradient_0() -> None:
    x = leaf([2.0, 2.0, 2.0])
    assert gradient(x.std(), x) == [0.0, 0.0, 0.0]


def test_a_norm_of_zero_has_gradient_0() -> None:
    x = leaf([0.0, 0.0])
    for p in (1, 2, 3, math.inf):
        assert gradient(x.norm(p), x) == [0.0, 0.0], p
    with pytest.raises(RuntimeError, match="'abc'"):
        x.norm("abc")


def test_older_forms_of_var() -> None:
    x = flambeau.tensor([1.0, 3.0])
    assert x.var(False).item() == x.var(0, False).item() == x.var(correction=0).item() == 1
    assert x.var(dim=0, unbiased=True).item() == 2
    with pytest.raises(TypeError, match="not both"):
        x.var(0, unbiased=True, correction=1)


def test_equal_extremes_share_the_gradient_of_the_whole() -> None:
    x = leaf([3.0, 1.0, 3.0])
    assert gradient(x.max(), x) == gradient(x.amax(0), x) == [0.5, 0.0, 0.5]
    assert gradient(x.median(), x) == [0.5, 0.0, 0.5]


def test_the_gradient_along_a_dimension_goes_to_the_index() -> None:
    x = leaf([3.0, 1.0, 3.0])
    values, indices = x.max(0)
    assert (values.item(), indices.item()) == (3.0, 0)
    assert gradient(values, x) == [1.0, 0.0, 0.0]


def test_max_is_three_functions() -> None:
    x = flambeau.tensor([[1.0, 5.0], [7.0, 2.0]])
    assert x.max().item() == 7
    assert x.max(1).indices.tolist() == [1, 0]
    assert x.max(x.T).tolist() == [[1.0, 7.0], [7.0, 2.0]]
    assert repr(x.max(dim=1, keepdim=True)) == (
        "flambeau.return_types.max(\nvalues=tensor([[5.],\n        [7.]]),\n"
        "indices=tensor([[1],\n        [0]]))"
    )
    with pytest.raises(TypeError, match="not both"):
        x.max(1, other=x)


def test_nan_wins_every_extreme_and_is_skipped_by_the_nan_functions() -> None:
    x = flambeau.tensor([1.0, math.nan, 3.0])
    assert x.argmax().item() == x.argmin().item() == x.median(0).indices.item() == 1
    assert math.isnan(x.max().item())
    assert (x.nansum().item(), x.nanmean().item(), x.nanmedian().item()) == (4.0, 2.0, 1.0)


def test_the_median_of_an_even_number_is_the_lower_one() -> None:
    assert flambeau.tensor([4, 1, 3, 2]).median().item() == 2


def test_running_extremes_point_at_the_last_of_equals() -> None:
    values, indices = flambeau.tensor([1, 3, 3, 2]).cummax(0)
    assert (values.tolist(), indices.tolist()) == ([1, 3, 3, 3], [0, 1, 2, 2])


def test_the_gradient_of_a_product_with_a_zero() -> None:
    x = leaf([2.0, 0.0, 3.0])
    assert gradient(x.prod(), x) == [0.0, 6.0, 0.0]
    assert gradient(x.cumprod(0), x) == [1.0, 8.0, 0.0]


def test_softmax_of_large_numbers() -> None:
    x = flambeau.tensor([1e4, 1e4])
    assert x.softmax(0).tolist() == [0.5, 0.5]
    assert x.log_softmax(0).tolist() == pytest.approx([-math.log(2)] * 2)
    assert x.logsumexp(0).item() == pytest.approx(1e4 + math.log(2))
    with pytest.raises(NotImplementedError, match="int64"):
        flambeau.tensor([1, 2]).softmax(0)


@given(
    matrices,
    st.floats(0, 1, allow_subnormal=False),
    st.sampled_from(["linear", "lower", "higher", "midpoint"]),
)
def test_quantiles_are_numpys(values: np.ndarray, q: float, interpolation: str) -> None:
    found = flambeau.quantile(flambeau.tensor(values), q, 1, interpolation=interpolation)
    expected = np.quantile(values, q, axis=1, method=interpolation)  # type: ignore[call-overload]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-9)


def test_quantiles_outside_the_range() -> None:
    with pytest.raises(RuntimeError, match=r"\[0, 1\].*1.5"):
        flambeau.quantile(flambeau.ones(3), 1.5)
    with pytest.raises(RuntimeError, match=r"\[0, 1\]"):
        flambeau.quantile(flambeau.ones(3), flambeau.tensor([0.5, 2.0]))


def test_meta_tensors_give_shapes() -> None:
    x = flambeau.ones(2, 3, 4, device="meta")
    assert tuple(x.sum((0, 2)).shape) == (3,)
    assert tuple(x.max(1, keepdim=True).indices.shape) == (2, 1, 4)
    assert tuple(x.softmax(1).shape) == (2, 3, 4)
