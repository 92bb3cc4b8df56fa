"""Mixed precision on a CPU: dtypes, values and gradients inside `autocast`, and `GradScaler`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import flambeau
from flambeau.nn import functional

rng = np.random.default_rng(0)
X = (rng.random((2, 3)) * 0.5 + 0.1).astype(np.float32)
SQUARE = (rng.random((3, 3)) + 3 * np.eye(3)).astype(np.float32)
BATCH = rng.random((2, 3, 3)).astype(np.float32)
IMAGES = rng.random((1, 2, 4, 4)).astype(np.float32)
LABELS = np.array([0, 1])

# What is computed, from a library, its nn.functional, and tensors of the arrays.
Compute = Callable[..., Any]
CASES: dict[str, tuple[Compute, tuple[np.ndarray, ...]]] = {
    "matmul": (lambda t, f, x, y: x @ y, (X, SQUARE)),
    "mm": (lambda t, f, x, y: t.mm(x, y), (X, SQUARE)),
    "bmm": (lambda t, f, x: t.bmm(x, x), (BATCH,)),
    "addmm": (lambda t, f, x, y: t.addmm(x, x, y), (X, SQUARE)),
    "baddbmm": (lambda t, f, x: t.baddbmm(x, x, x), (BATCH,)),
    "addmv": (lambda t, f, x, y: t.addmv(x[0], y, x[0]), (X, SQUARE)),
    "mv": (lambda t, f, x, y: t.mv(y, x[0]), (X, SQUARE)),
    "dot": (lambda t, f, x: t.dot(x[0], x[0]), (X,)),
    "einsum": (lambda t, f, x, y: t.einsum("ij,jk", x, y), (X, SQUARE)),
    "tensordot": (lambda t, f, x, y: t.tensordot(x, y, 1), (X, SQUARE)),
    "multi_dot": (lambda t, f, x, y: t.linalg.multi_dot([x, y, y]), (X, SQUARE)),
    "outer": (lambda t, f, x: t.outer(x[0], x[1]), (X,)),
    "linear": (lambda t, f, x, y: f.linear(x, y), (X, SQUARE)),
    "bilinear": (lambda t, f, x, y: f.bilinear(x, x, y), (X, BATCH)),
    "conv1d": (lambda t, f, x: f.conv1d(x, x[:, :, :2]), (BATCH,)),
    "conv2d": (lambda t, f, x: f.conv2d(x, x[:, :, :3, :3]), (IMAGES,)),
    "conv_transpose2d": (lambda t, f, x: f.conv_transpose2d(x, x[0, :, None]), (IMAGES,)),
    "attention": (lambda t, f, x: f.scaled_dot_product_attention(x, x, x), (BATCH,)),
    "prelu": (lambda t, f, x, y: f.prelu(x, y), (X - 0.3, X[0, :1])),
    "add": (lambda t, f, x: x + x, (X,)),
    "pow": (lambda t, f, x: x**2, (X,)),
    "exp": (lambda t, f, x: x.exp(), (X,)),
    "log": (lambda t, f, x: x.log(), (X,)),
    "sum": (lambda t, f, x: x.sum(), (X,)),
    "mean": (lambda t, f, x: x.mean(), (X,)),
    "prod": (lambda t, f, x: x.prod(), (X,)),
    "cumsum": (lambda t, f, x: x.cumsum(0), (X,)),
    "norm": (lambda t, f, x: x.norm(), (X,)),
    "trace": (lambda t, f, x: t.trace(x), (SQUARE,)),
    "quantile": (lambda t, f, x: t.quantile(x, 0.5), (X,)),
    "relu": (lambda t, f, x: f.relu(x), (X,)),
    "gelu": (lambda t, f, x: f.gelu(x), (X,)),
    "softmax": (lambda t, f, x: f.softmax(x, 1), (X,)),
    "log_softmax": (lambda t, f, x: f.log_softmax(x, 1), (X,)),
    "layer_norm": (lambda t, f, x: f.layer_norm(x, (3,)), (X,)),
    "group_norm": (lambda t, f, x: f.group_norm(x, 1), (IMAGES,)),
    "batch_norm": (lambda t, f, x: f.batch_norm(x, None, None, training=True), (IMAGES,)),
    "cross_entropy": (lambda t, f, x, y: f.cross_entropy(x, y), (X, LABELS)),
    "nll_loss": (lambda t, f, x, y: f.nll_loss(x, y), (X, LABELS)),
    "mse_loss": (lambda t, f, x: f.mse_loss(x, x * 2), (X,)),
    "l1_loss": (lambda t, f, x: f.l1_loss(x, x * 2), (X,)),
    "smooth_l1_loss": (lambda t, f, x: f.smooth_l1_loss(x, x * 2), (X,)),
    "huber_loss": (lambda t, f, x: f.huber_loss(x, x * 2), (X,)),
    "binary_cross_entropy": (lambda t, f, x: f.binary_cross_entropy(x, x.detach()), (X,)),
    "bce_with_logits": (lambda t, f, x: f.binary_cross_entropy_with_logits(x, x), (X,)),
    "kl_div": (lambda t, f, x: f.kl_div(x, x.detach(), reduction="sum"), (X,)),
    "poisson_nll_loss": (lambda t, f, x: f.poisson_nll_loss(x, x), (X,)),
    "triplet": (lambda t, f, x: f.triplet_margin_loss(x, x + 1, x * 3), (X,)),
    "cosine_similarity": (lambda t, f, x: f.cosine_similarity(x, x + 1), (X,)),
    "cdist": (lambda t, f, x: t.cdist(x, x + 1), (X,)),
    "avg_pool2d": (lambda t, f, x: f.avg_pool2d(x, 2), (IMAGES,)),
    "max_pool2d": (lambda t, f, x: f.max_pool2d(x, 2), (IMAGES,)),
    "interpolate": (lambda t, f, x: f.interpolate(x, scale_factor=2, mode="bilinear"), (IMAGES,)),
    "grid_sample": (
        lambda t, f, x, y: f.grid_sample(x, y, align_corners=False), (IMAGES, IMAGES[:, :, :2, :2]),
    ),
    "reflect": (lambda t, f, x: f.pad(x, (1, 1, 1, 1), mode="reflect"), (IMAGES,)),
    "inv": (lambda t, f, x: t.linalg.inv(x), (SQUARE,)),
    "qr": (lambda t, f, x: t.linalg.qr(x)[1].abs(), (SQUARE,)),
    "cat": (lambda t, f, x: t.cat([x, x.bfloat16()]), (X,)),
    "addcmul": (lambda t, f, x: t.addcmul(x, x.bfloat16(), x), (X,)),
    "of doubles": (lambda t, f, x, y: x.double() @ y.double(), (X, SQUARE)),
    "of halves": (lambda t, f, x, y: x.half() @ y.half(), (X, SQUARE)),
    "mixed linear": (lambda t, f, x, y: f.linear(x, y.bfloat16()), (X, SQUARE)),
    "mixed layer_norm": (
        lambda t, f, x: f.layer_norm(x.bfloat16(), (3,), t.ones(3), t.ones(3)), (X,),
    ),
}  # fmt: skip


def run(
    lib: Any, nn: Any, case: tuple[Compute, tuple[np.ndarray, ...]], dtype: str
) -> tuple[Any, list[Any]]:
    compute, arrays = case
    tensors = [lib.from_numpy(each.copy()) for each in arrays]
    leaves = [each.requires_grad_() for each in tensors if each.is_floating_point()]
    cast = [each.to(getattr(lib, dtype)) if each.requires_grad else each for each in tensors]
    with lib.autocast("cpu"):
        result = compute(lib, nn, *cast)
    result.backward(lib.ones_like(result))
    return result, [each.grad for each in leaves]


def values(tensor: Any) -> np.ndarray:
    return tensor.detach().double().numpy()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_operators_choose_the_same_precision(name: str, dtype: str) -> None:
    expected, their_gradients = run(torch, torch.nn.functional, CASES[name], dtype)
    found, gradients = run(flambeau, functional, CASES[name], dtype)
    assert str(found.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    np.testing.assert_allclose(values(found), values(expected), rtol=0.03, atol=0.03)
    for one, other in zip(gradients, their_gradients, strict=True):
        assert str(one.dtype) == "flambeau.float32"
        scale = max(1.0, float(np.abs(values(other)).max()))
        np.testing.assert_allclose(values(one), values(other), rtol=0.05, atol=0.05 * scale)


def train(lib: Any, steps: int) -> tuple[list[float], Any]:
    lib.manual_seed(0)
    nn = lib.nn
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
        nn.LayerNorm(64), nn.Linear(64, 8), nn.GELU(), nn.Linear(8, 3),
    )  # fmt: skip
    optimizer = lib.optim.Adam(model.parameters(), lr=0.01)
    scaler = lib.amp.GradScaler("cpu", growth_interval=3)
    images = lib.from_numpy(rng_images.copy())
    labels = lib.tensor([0, 1, 2, 1])
    losses = []
    for _ in range(steps):
        with lib.autocast("cpu"):
            loss = nn.functional.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, scaler.state_dict()


rng_images = np.random.default_rng(1).standard_normal((4, 2, 4, 4)).astype(np.float32)


def test_a_training_loop_in_mixed_precision() -> None:
    expected, their_state = train(torch, 12)
    found, state = train(flambeau, 12)
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.02)
    assert found[-1] < 0.5 * found[0]
    assert state == their_state


def scales(lib: Any, slopes: list[float]) -> list[Any]:
    weight = lib.nn.Parameter(lib.ones(2))
    optimizer = lib.optim.SGD([weight], lr=0.5)
    scaler = lib.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    found = []
    for slope in slopes:
        optimizer.zero_grad()
        scaler.scale((weight * slope).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append((scaler.state_dict(), weight.tolist()))
    return found


def test_the_scale_takes_the_same_course() -> None:
    slopes = [1.0, 1.0, float("inf"), 2.0, float("nan"), 1.0, 1.0, 1.0, 1.0, float("-inf")]
    assert scales(flambeau, slopes) == scales(torch, slopes)
