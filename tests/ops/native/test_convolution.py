"""Convolutions by native kernels compute what XLA's one operator computes."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau.core.devices.native import native_kernels
from flambeau.ops.cpu_forms import convolutions as forms
from flambeau.ops.native import convolution as native
from tests.ops.cpu_forms.test_convolutions import CONVOLUTIONS, TRANSPOSED

pytestmark = pytest.mark.skipif(
    not native_kernels(), reason="the native kernels are not installed; `make kernels` builds them"
)

LARGER = {
    "long rows": ((3, 20, 30, 40), (24, 20, 3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1), 1),
    "small images": ((5, 32, 3, 3), (40, 32, 3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1), 1),
    "stride": ((2, 17, 15, 15), (33, 17, 7, 7), (2, 2), [(3, 3), (3, 3)], (1, 1), 1),
    "no samples": ((0, 3, 4), (5, 3, 2), (1,), [(0, 0)], (1,), 1),
    "one tap": ((2, 16, 13, 13), (20, 16, 1, 1), (1, 1), [(0, 0), (0, 0)], (1, 1), 1),
}  # fmt: skip


def _without(monkeypatch):
    monkeypatch.setattr(native, "takes", lambda *_: False)
    monkeypatch.setattr(forms, "cpu_forms", lambda: False)


def _arrays(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]


def _close(found, expected):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        scale = np.abs(theirs).max(initial=1e-6)
        np.testing.assert_allclose(ours / scale, theirs / scale, atol=2e-5)


def _value_and_gradients(function, input, weight, arguments):
    result, pull = jax.vjp(lambda x, w: function(x, w, *arguments), input, weight)
    return result, pull(jnp.cos(jnp.arange(result.size)).astype(result.dtype).reshape(result.shape))


@pytest.mark.parametrize(
    ("function", "case"),
    [(forms.convolve, each) for each in (*CONVOLUTIONS.values(), *LARGER.values())]
    + [(forms.convolve_transposed, each) for each in TRANSPOSED.values()],
)
def test_values_and_gradients(monkeypatch, function, case):
    input, weight, *arguments = case
    arrays = _arrays(input, weight)
    # XLA is faster where filters are as large as the images; the kernels compute these too.
    monkeypatch.setattr(forms, "_are_small", lambda *_: False)
    if native.takes(*map(jnp.asarray, arrays), arguments[-1]):
        text = jax.jit(lambda x, w: function(x, w, *arguments)).lower(*arrays).as_text()
        assert "flambeau_convolution" in text
    found = jax.jit(lambda x, w: _value_and_gradients(function, x, w, arguments))(*arrays)
    _without(monkeypatch)
    _close(found, jax.jit(lambda x, w: _value_and_gradients(function, x, w, arguments))(*arrays))


CASE = ((2, 6, 5, 7), (4, 6, 3, 2), (2, 1), [(1, 1), (0, 2)], (1, 2), 1)


@pytest.mark.parametrize("function", [forms.convolve, forms.convolve_transposed])
def test_second_derivatives_in_both_directions(monkeypatch, function):
    input, weight, *arguments = CASE
    weight = (6, 4, 3, 2) if function is forms.convolve_transposed else weight
    arrays = _arrays(input, weight)

    def both(x, w):
        def loss(x, w):
            return jnp.sum(function(x, w, *arguments) ** 3)

        gradients = jax.grad(lambda x, w: jnp.sum(jax.grad(loss)(x, w) ** 2), (0, 1))(x, w)
        return gradients, jax.jvp(jax.grad(loss, (0, 1)), (x, w), (jnp.cos(x), jnp.sin(w)))

    found = jax.jit(both)(*arrays)
    _without(monkeypatch)
    _close(found, jax.jit(lambda x, w: both(x, w))(*arrays))


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_batches(monkeypatch, axes):
    input, weight, *arguments = CASE
    shapes = [shape if axis is None else (3, *shape)
              for shape, axis in zip((input, weight), axes, strict=True)]  # fmt: skip
    arrays = _arrays(*shapes)

    def gradients(x, w):
        return _value_and_gradients(forms.convolve, x, w, arguments)

    found = jax.jit(jax.vmap(gradients, axes))(*arrays)
    _without(monkeypatch)
    _close(found, jax.jit(jax.vmap(lambda x, w: gradients(x, w), axes))(*arrays))


def test_batches_of_samples_are_one_call_of_the_kernel():
    input, weight, *arguments = CASE
    x, w = _arrays((3, *input), weight)
    batched = jax.vmap(lambda x: forms.convolve(x, w, *arguments))
    assert jax.jit(batched).lower(x).as_text().count("custom_call @flambeau_convolution") == 1


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.bfloat16, jnp.int32])
def test_other_dtypes_are_left_to_xla(dtype):
    assert not native.takes(jnp.ones((1, 2, 3), dtype), jnp.ones((1, 2, 3), dtype), 1)


def test_single_channels_are_left_to_xla():
    assert not native.takes(jnp.ones((1, 4, 3), "float32"), jnp.ones((4, 1, 3), "float32"), 4)


def test_a_call_whose_shapes_do_not_fit_is_refused():
    images, filters = jnp.ones((1, 3, 5), jnp.float32), jnp.ones((4, 2, 3), jnp.float32)
    steps = {each: np.ones(1, np.int64) for each in ("stride", "before", "dilation")}
    call = jax.ffi.ffi_call("flambeau_convolution", jax.ShapeDtypeStruct((1, 4, 5), jnp.float32))
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"images \[1, 3, 5\], filters \[4, 2, 3\]"
    ):
        jax.block_until_ready(call(images, filters, **steps))


def test_a_layer_trains_as_without_kernels():
    code = """
import flambeau
from flambeau import nn

flambeau.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(16, 4, 2, 2))
optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
images = flambeau.randn(4, 3, 8, 8)

@flambeau.compile
def step():
    loss = model(images).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss

print([round(step().item(), 6) for _ in range(3)], len(flambeau.compiler.stats()["kernels"]))
"""
    found = []
    for setting in ("1", "0"):
        result = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "FLAMBEAU_KERNELS": setting},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        losses, _, kernels = result.stdout.strip().rpartition(" ")
        found.append(losses)
        assert int(kernels) == (len(native_kernels()) if setting == "1" else 0)
    assert flambeau.allclose(*(flambeau.tensor(eval(each)) for each in found), atol=1e-5)
