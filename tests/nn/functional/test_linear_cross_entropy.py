"""Class scores and their cross entropy in one, whole and in parts."""

import jax
import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.ops.neural.losses.linear_cross_entropy import linear_cross_entropy


def operands(count=5, classes=7, features=3):
    x = flambeau.arange(count * features).reshape(count, features).sin().requires_grad_()
    weight = flambeau.arange(classes * features).reshape(classes, features).cos().requires_grad_()
    return x, weight, flambeau.arange(count) * 3 % classes


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("chunk", [1, 2, 5, 8])
def test_parts_give_the_whole(reduction, chunk):
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=chunk)
    bias = flambeau.arange(7).float().requires_grad_()
    factors = flambeau.arange(7).float() / 4
    found = []
    for each in (None, options):
        x, weight, target = operands()
        bias.grad = None
        loss = F.linear_cross_entropy(
            x, weight, target, linear_bias=bias, weight=factors, ignore_index=3,
            reduction=reduction, options=each,
        )  # fmt: skip
        loss.sum().backward()
        found.append((loss, x.grad, weight.grad, bias.grad))
    for whole, parts in zip(*found, strict=True):
        assert whole.shape == parts.shape
        assert (whole - parts).abs().max().item() < 2e-6


def test_sample_without_a_batch():
    x, weight, target = operands()
    options = nn.LinearCrossEntropyOptions()
    for reduction in ("mean", "none"):
        whole = F.linear_cross_entropy(x[1], weight, target[1], reduction=reduction)
        parts = F.linear_cross_entropy(
            x[1], weight, target[1], reduction=reduction, options=options
        )
        assert whole.shape == parts.shape == ()
        assert abs(whole.item() - parts.item()) < 1e-6


def test_scores_never_exist_whole():
    count, classes, features = 64, 96, 4

    def gradient(x, weight, target):
        def loss(x, weight):
            return linear_cross_entropy(
                flambeau.Tensor._wrap(x), flambeau.Tensor._wrap(weight),
                flambeau.Tensor._wrap(target), None, None, "mean", -100, 0.0, 8,
            )._read()  # fmt: skip

        return jax.grad(loss, (0, 1))(x, weight)

    shapes = [(count, features), (classes, features)]
    arguments = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    program = jax.jit(gradient).lower(*arguments, jax.ShapeDtypeStruct((count,), "int64"))
    text = program.as_text()
    assert f"tensor<8x{classes}xf32>" in text
    assert f"tensor<{count}x{classes}xf32>" not in text
    assert f"tensor<8x8x{classes}xf32>" not in text


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"chunking_method": None}, 64),
        ({"batch_chunk_size": 100}, 64),
        ({"batch_chunk_size": 5}, 5),
        ({"chunking_method": "aspect_ratio"}, 8),
        ({"chunking_method": "aspect_ratio:4"}, 2),
        ({"chunking_method": "aspect_ratio:100"}, 1),
        ({}, 4),
    ],
)
def test_sizes_of_parts(options, size):
    x = flambeau.ones(64, 4)
    assert nn.LinearCrossEntropyOptions(**options)._chunk_for(64, 4, 32, x) == size


def test_two_sizes_of_parts_are_refused():
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=3, chunking_method="aspect_ratio")
    x, weight, target = operands(64, 32, 4)
    with pytest.raises(ValueError, match="parts of 8 samples, but batch_chunk_size=3"):
        F.linear_cross_entropy(x, weight, target, options=options)
