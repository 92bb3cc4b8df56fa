"""Class scores and their cross entropy in one, whole and in parts."""

import jax
import pytest

import flambeau
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.ops.chunked_loss import chunked_linear_cross_entropy


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


def test_half_precision_is_added_up_in_float32():
    x, weight, target = operands()
    exact = F.linear_cross_entropy(x, weight, target)
    loss = F.linear_cross_entropy(
        x.bfloat16(), weight.bfloat16(), target, options=nn.LinearCrossEntropyOptions()
    )
    assert loss.dtype is flambeau.bfloat16
    assert abs(loss.item() - exact.item()) < 0.02


def test_scores_never_exist_whole():
    count, classes, features = 64, 96, 4

    def gradient(x, weight, target):
        def loss(x, weight):
            return chunked_linear_cross_entropy(
                flambeau.Tensor._wrap(x), flambeau.Tensor._wrap(weight),
                flambeau.Tensor._wrap(target), None, None, -100, "mean", 8, flambeau.float32,
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


def test_options_that_cannot_be_used_are_ignored_with_a_warning():
    x, weight, target = operands()
    with pytest.warns(UserWarning, match=r"options are ignored.*label_smoothing=0\.5"):
        loss = F.linear_cross_entropy(
            x, weight, target, label_smoothing=0.5, options=nn.LinearCrossEntropyOptions()
        )
    assert loss.item() == F.linear_cross_entropy(x, weight, target, label_smoothing=0.5).item()


def test_shapes_are_checked():
    x, weight, target = operands()
    with pytest.raises(
        RuntimeError, match=r"\(N, in_features\) or \(in_features,\), got \[1, 5, 3\]"
    ):
        F.linear_cross_entropy(x[None], weight, target)
    with pytest.raises(RuntimeError, match=r"got \[7, 2\] for an input of shape \[5, 3\]"):
        F.linear_cross_entropy(x, weight[:, :2], target)
    with pytest.raises(RuntimeError, match=r"linear_bias must have shape \[7\], got \[3\]"):
        F.linear_cross_entropy(x, weight, target, linear_bias=flambeau.ones(3))
    with pytest.raises(RuntimeError, match=r"\[7, 1, 3\] needs a batch, got .* \[3\]"):
        F.linear_cross_entropy(x[0], weight[:, None], target)
    with pytest.raises(RuntimeError, match="ignore_index is a class"):
        F.linear_cross_entropy(x, weight, flambeau.ones(5, 7), ignore_index=1)
    with pytest.raises(RuntimeError, match=r"needs a target of shape \[5\], got \[4\]"):
        F.linear_cross_entropy(x, weight, target[:4], options=nn.LinearCrossEntropyOptions())
