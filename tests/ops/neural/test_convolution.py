"""Convolutions equal the sums that define them, and their errors state the shapes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flambeau
from flambeau.nn import functional as F

RANDOM = np.random.default_rng(0)


def numbers(*shape):
    return RANDOM.integers(-3, 4, shape).astype(np.float32)


def convolved(x, weight, stride, padding, dilation, groups):
    """The cross-correlation of ``(N, C, ...)`` with ``(O, C / groups, ...)``, sum by sum."""
    spatial = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in padding]])
    sizes = [
        (x.shape[2 + i] - dilation[i] * (weight.shape[2 + i] - 1) - 1) // stride[i] + 1
        for i in range(spatial)
    ]
    found = np.zeros((x.shape[0], weight.shape[0], *sizes), x.dtype)
    inputs, outputs = weight.shape[1], weight.shape[0] // groups
    for o, place in itertools.product(range(weight.shape[0]), np.ndindex(*sizes)):
        first = o // outputs * inputs
        window = tuple(
            slice(at * s, at * s + d * (k - 1) + 1, d)
            for at, s, d, k in zip(place, stride, dilation, weight.shape[2:], strict=True)
        )
        part = x[(slice(None), slice(first, first + inputs), *window)]
        found[(slice(None), o, *place)] = (part * weight[o]).reshape(len(x), -1).sum(1)
    return found


def transposed(x, weight, stride, padding, dilation, groups, extra):
    """What each input element adds to the output of a transposed convolution."""
    spatial = x.ndim - 2
    full = [
        (x.shape[2 + i] - 1) * stride[i] + dilation[i] * (weight.shape[2 + i] - 1) + 1 + extra[i]
        for i in range(spatial)
    ]
    outputs = weight.shape[1]
    found = np.zeros((x.shape[0], outputs * groups, *full), x.dtype)
    inputs = x.shape[1] // groups
    for c, place in itertools.product(range(x.shape[1]), np.ndindex(*x.shape[2:])):
        first = c // inputs * outputs
        window = tuple(
            slice(at * s, at * s + d * (k - 1) + 1, d)
            for at, s, d, k in zip(place, stride, dilation, weight.shape[2:], strict=True)
        )
        value = x[(slice(None), c, *place)].reshape(-1, *[1] * (spatial + 1))
        found[(slice(None), slice(first, first + outputs), *window)] += value * weight[c]
    crop = tuple(slice(p, size - p) for p, size in zip(padding, full, strict=True))
    return found[(slice(None), slice(None), *crop)]


# Shapes of input and weight, stride, padding, dilation, groups.
CASES = {
    "one dimension": ((2, 2, 6), (3, 2, 3), (1,), (0,), (1,), 1),
    "strided": ((2, 2, 6), (3, 2, 3), (2,), (1,), (1,), 1),
    "two dimensions": ((1, 2, 5, 4), (2, 2, 3, 2), (1, 1), (1, 0), (1, 1), 1),
    "dilated": ((1, 2, 5, 4), (2, 2, 2, 2), (2, 1), (1, 1), (2, 2), 1),
    "groups": ((1, 4, 5, 4), (2, 2, 3, 2), (1, 2), (0, 1), (1, 1), 2),
    "a group for each channel": ((1, 3, 5, 4), (6, 1, 3, 2), (1, 1), (1, 1), (1, 1), 3),
    "three dimensions": ((1, 2, 3, 4, 3), (2, 2, 2, 2, 2), (1, 2, 1), (1, 0, 0), (1, 1, 1), 1),
}
TRANSPOSED = {
    "one dimension": ((2, 2, 4), (2, 3, 3), (1,), (0,), (1,), 1, (0,)),
    "strided": ((2, 2, 4), (2, 3, 3), (2,), (1,), (1,), 1, (1,)),
    "dilated": ((1, 2, 3, 4), (2, 2, 2, 2), (2, 1), (1, 0), (2, 2), 1, (1, 0)),
    "groups": ((1, 4, 3, 4), (4, 1, 3, 2), (1, 2), (0, 1), (1, 1), 2, (0, 0)),
    "three dimensions": (
        (1, 2, 2, 3, 2), (2, 1, 2, 2, 2), (1, 2, 1), (1, 0, 0), (1, 1, 1), 1, (0, 1, 0),
    ),
}  # fmt: skip


def named(kind, spatial):
    return getattr(F, f"{kind}{spatial}d")


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_is_the_sum_that_defines_it(name):
    shape, filters, stride, padding, dilation, groups = CASES[name]
    x, weight, bias = numbers(*shape), numbers(*filters), numbers(filters[0])
    expected = convolved(x, weight, stride, padding, dilation, groups)
    expected += bias.reshape(-1, *[1] * (len(shape) - 2))
    found = named("conv", len(stride))(
        *map(flambeau.tensor, (x, weight, bias)), stride, padding, dilation, groups
    )
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", TRANSPOSED)
def test_a_transposed_convolution_spreads_each_element(name):
    shape, filters, stride, padding, dilation, groups, extra = TRANSPOSED[name]
    x, weight = numbers(*shape), numbers(*filters)
    found = named("conv_transpose", len(stride))(
        flambeau.tensor(x), flambeau.tensor(weight), None, stride, padding, extra, groups, dilation
    )
    expected = transposed(x, weight, stride, padding, dilation, groups, extra)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-4)


X, K = flambeau.tensor(numbers(1, 2, 6)), flambeau.tensor(numbers(3, 2, 3))


def test_a_transposed_convolution_is_the_gradient_of_a_convolution():
    x = X.clone().requires_grad_()
    y = F.conv1d(x, K, stride=2, padding=1)
    y.backward(y.detach())
    # An input of even size leaves one element out, which is added behind.
    expected = F.conv_transpose1d(y.detach(), K, stride=2, padding=1, output_padding=1)
    np.testing.assert_allclose(x.grad.numpy(), expected.numpy(), rtol=1e-5, atol=1e-4)


def test_a_transposed_convolution_with_stride_and_dilation_has_second_derivatives():
    """XLA's own operator for it aborts the process while it compiles these."""
    x = flambeau.tensor(numbers(5, 2, 4, 4)).requires_grad_()
    weight = flambeau.tensor(numbers(2, 5, 1, 3)).requires_grad_()
    y = F.conv_transpose2d(x, weight, None, (2, 1), (1, 3), (1, 0), 1, (1, 2))
    (gradient,) = flambeau.autograd.grad(y.sum(), weight, create_graph=True)
    squares = gradient.square().sum()
    (slope,) = flambeau.autograd.grad(squares, x)
    # The squares are a homogeneous function of degree two.
    np.testing.assert_allclose((slope * x).sum().item(), 2 * squares.item(), rtol=1e-5)


def test_without_a_batch():
    np.testing.assert_array_equal(F.conv1d(X[0], K).numpy(), F.conv1d(X, K)[0].numpy())
    k = K.transpose(0, 1).contiguous()
    found, expected = F.conv_transpose1d(X[0], k), F.conv_transpose1d(X, k)[0]
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_padding_by_name():
    np.testing.assert_array_equal(
        F.conv1d(X, K, padding="same").numpy(), F.conv1d(X, K, padding=1).numpy()
    )
    np.testing.assert_array_equal(F.conv1d(X, K, padding="valid").numpy(), F.conv1d(X, K).numpy())
    # With an even kernel the odd zero stands behind.
    even = F.conv1d(X, K[..., :2], padding="same")
    assert even.shape == (1, 3, 6)
    np.testing.assert_array_equal(even[..., :5].numpy(), F.conv1d(X, K[..., :2]).numpy())


def test_time_first():
    x, weight, bias = X.permute(2, 0, 1), K.permute(2, 1, 0), flambeau.tensor([1.0, 2.0, 3.0])
    found = F.conv_tbc(x, weight, bias, pad=1)
    expected = F.conv1d(X, K, bias, padding=1).permute(2, 0, 1)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)


ERRORS = {
    "input": (r"2-d \(unbatched\) or 3-d \(batched\), got shape \[6\]",
              lambda: F.conv1d(X[0, 0], K)),
    "weight": (r"weight must be 3-d, got shape \[2, 3\]", lambda: F.conv1d(X, K[0])),
    "channels": (r"of shape \[3, 2, 3\] takes an input of 2 channels.*\[1, 1, 6\] has 1",
                 lambda: F.conv1d(X[:, :1], K)),
    "groups": (r"groups=2 does not divide the 3 channels",
               lambda: F.conv1d(X, K[:, :1], groups=2)),
    "no groups": ("groups must be positive, got 0", lambda: F.conv1d(X, K, groups=0)),
    "bias": (r"shape \[3\] .*\[3, 2, 3\], got \[2\]", lambda: F.conv1d(X, K, flambeau.ones(2))),
    "stride": (r"stride must be positive, got \[0\]", lambda: F.conv1d(X, K, stride=0)),
    "dilation": (r"dilation must be positive, got \[0\]", lambda: F.conv1d(X, K, dilation=0)),
    "padding": (r"padding must not be negative, got \[-1\]", lambda: F.conv1d(X, K, padding=-1)),
    "name of a padding": ("'same' or 'valid', got 'full'", lambda: F.conv1d(X, K, padding="full")),
    "same and strided": (r"needs stride 1, got \[2\]",
                         lambda: F.conv1d(X, K, stride=2, padding="same")),
    "kernel": ("extent .*11.* does not fit into the padded input of size .*6",
               lambda: F.conv1d(X, K, dilation=5)),
    "numbers": (r"one number or 2, got \[1, 1, 1\]",
                lambda: F.conv2d(X, K[:1, :1, None], stride=(1, 1, 1))),
    "dtypes": ("float32 and .*float64", lambda: F.conv1d(X, K.double())),
    "output_padding": (r"smaller than stride or dilation, got \[1\] with stride \[1\]",
                       lambda: F.conv_transpose1d(X, K[:2], output_padding=1)),
    "output": (r"\[1, 2, 6\] would have size \[-2\]",
               lambda: F.conv_transpose1d(X, K[:2], padding=5)),
    "time first": (r"takes 2 channels, the input has 6",
                   lambda: F.conv_tbc(X, K.permute(2, 1, 0), flambeau.ones(3))),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_state_the_facts(name):
    facts, compute = ERRORS[name]
    with pytest.raises(RuntimeError, match=facts):
        compute()
