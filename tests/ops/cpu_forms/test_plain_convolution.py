"""The forms for XLA's kernels compute what XLA's one operator computes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import flambeau
from flambeau.func import functional_call
from flambeau.nn import functional as F
from flambeau.ops.cpu_forms import plain_convolution as forms
from flambeau.ops.cpu_forms.plain_convolution import plain_convolution

# Input, filters, stride, borders, dilation.
CASES = {
    "few outputs": ((2, 3, 5, 6), (4, 3, 3, 2), (1, 1), [(1, 1), (0, 1)], (1, 1)),
    "no border": ((2, 3, 5, 12), (4, 3, 3, 2), (1, 1), [(0, 0), (0, 0)], (1, 1)),
    "no border and few columns": ((2, 3, 5, 6), (4, 3, 3, 2), (1, 1), [(0, 0), (0, 0)], (1, 1)),
    "no border, a stride": ((2, 3, 5, 6), (4, 3, 3, 2), (1, 2), [(0, 0), (0, 0)], (1, 1)),
    "many outputs": ((1, 17, 5, 6), (65, 17, 3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1)),
    "many outputs, a stride": ((1, 17, 5, 6), (65, 17, 3, 3), (2, 1), [(1, 0), (0, 2)], (1, 2)),
    "as many rows": ((2, 3, 16, 5), (4, 3, 3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1)),
    "as many rows, all before": ((2, 3, 16, 5), (4, 3, 4, 2), (1, 1), [(3, 0), (0, 0)], (1, 1)),
    "as many rows, all behind": ((2, 3, 16, 5), (4, 3, 3, 3), (1, 1), [(0, 2), (2, 0)], (1, 1)),
    "as many rows, one tap high": ((2, 3, 16, 5), (4, 3, 1, 3), (1, 1), [(0, 0), (1, 1)], (1, 1)),
    "wide": ((1, 3, 16, 40), (2, 3, 3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1)),
    "more rows than before": ((2, 3, 16, 5), (4, 3, 2, 3), (1, 1), [(2, 2), (1, 1)], (1, 1)),
    "cropped": ((2, 3, 9, 8), (4, 3, 3, 2), (2, 1), [(-1, 2), (0, -2)], (1, 2)),
    "borders beyond the filters": ((2, 3, 4, 5), (4, 3, 2, 2), (1, 2), [(3, 2), (2, 4)], (1, 1)),
    "one dimension": ((2, 5, 9), (7, 5, 3), (2,), [(1, 3)], (2,)),
}  # fmt: skip
LAYOUTS = {1: ("NCH", "OIH", "NCH"), 2: ("NCHW", "OIHW", "NCHW")}


def _expected(input, filters, stride, borders, dilation):
    return lax.conv_general_dilated(
        input, filters, stride, borders, rhs_dilation=dilation,
        dimension_numbers=LAYOUTS[len(stride)],
    )  # fmt: skip


def _arrays(name, dtype=np.float32):
    rng = np.random.default_rng(0)
    input, filters, *arguments = CASES[name]
    return [jnp.asarray(rng.standard_normal(each), dtype) for each in (input, filters)], arguments


def _value_and_gradients(function, arrays):
    @jax.jit
    def run(input, filters):
        result, pull = jax.vjp(function, input, filters)
        return result, pull(jnp.cos(result))

    return jax.tree.leaves(run(*arrays))


def _close(found, expected, tolerance=1e-4):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("cores", [1, 2], ids=["one core", "several cores"])
@pytest.mark.parametrize("name", CASES)
def test_output_and_gradients(name, cores, monkeypatch):
    monkeypatch.setattr(forms, "cores", lambda: cores)
    arrays, arguments = _arrays(name)
    ours = _value_and_gradients(lambda x, w: plain_convolution(x, w, *arguments), arrays)
    theirs = _value_and_gradients(lambda x, w: _expected(x, w, *arguments), arrays)
    _close(ours, theirs)


def test_bfloat16_stays_bfloat16():
    arrays, arguments = _arrays("as many rows", jnp.bfloat16)
    ours = _value_and_gradients(lambda x, w: plain_convolution(x, w, *arguments), arrays)
    theirs = _value_and_gradients(lambda x, w: _expected(x, w, *arguments), arrays)
    _close([each.astype(jnp.float32) for each in ours],
           [each.astype(jnp.float32) for each in theirs], 5e-2)  # fmt: skip
    assert {each.dtype for each in ours} == {jnp.dtype("bfloat16")}


def test_second_derivatives():
    arrays, arguments = _arrays("as many rows")

    def curvature(convolve):
        def loss(x, w):
            return jnp.sum(jnp.sin(convolve(x, w, *arguments)))

        slope = jax.grad(loss, (0, 1))
        return jax.jit(lambda x, w: jax.jvp(slope, (x, w), (w.sum() * x, x.mean() * w)))(*arrays)

    _close(curvature(plain_convolution), curvature(_expected), 1e-3)


@pytest.mark.parametrize("axes", [(0, None), (1, None), (None, 0), (0, 0)])
def test_vmap_of_the_output_and_its_gradients(axes):
    (input, filters), arguments = _arrays("few outputs")
    inputs, many = jnp.stack([input, 2 * input], axes[0] or 0), jnp.stack([filters, 3 * filters])
    arrays = (inputs if axes[0] is not None else input, many if axes[1] is not None else filters)

    def run(convolve):
        def with_gradients(x, w):
            result, pull = jax.vjp(lambda x, w: convolve(x, w, *arguments), x, w)
            return result, pull(result)

        return jax.jit(jax.vmap(with_gradients, axes))(*arrays)

    _close(run(plain_convolution), run(_expected), 1e-3)


@pytest.mark.parametrize("name", ["few outputs", "many outputs"])
def test_channels_are_last_for_the_kernels(name):
    # Others XLA turns round by itself, but in loops it takes its slowest code for them.
    arrays, arguments = _arrays(name)
    jaxpr = str(jax.make_jaxpr(jax.jit(lambda x, w: _lowered(x, w, arguments)))(*arrays))
    assert "lhs_spec=(0, 3, 1, 2)" in jaxpr


def _lowered(input, filters, arguments):
    from flambeau.ops.cpu_forms import plain_convolution as forms

    geometry = forms.Geometry(
        input.shape, filters.shape, arguments[0], tuple(arguments[1]), arguments[2]
    )
    return forms._output(input, filters, geometry)


IMAGES = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
FILTERS = np.ones((2, 2, 3, 3), np.float32)


def test_a_layer_works_within_a_function_that_jax_traces():
    layer = flambeau.nn.Conv2d(2, 2, 3)
    expected = layer(flambeau.from_numpy(IMAGES)).detach().numpy()
    weights = dict(layer.state_dict())
    found = jax.jit(lambda weights, x: functional_call(layer, weights, x))(
        weights, flambeau.from_numpy(IMAGES)
    )
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_an_operator_on_known_tensors_works_within_a_function_that_jax_traces():
    images, filters = flambeau.from_numpy(IMAGES), flambeau.from_numpy(FILTERS)
    expected = F.conv2d(images, filters).jax()
    found = jax.jit(lambda scale: F.conv2d(images, filters).jax() * scale)(jnp.float32(1))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_gradients_outside_a_compiled_function_with_a_convolution():
    layer = flambeau.nn.Conv2d(2, 2, 3)
    images = flambeau.from_numpy(IMAGES)
    layer(images).sum().backward()
    expected = layer.weight.grad.numpy()
    layer.zero_grad()
    flambeau.compile(layer)(images).sum().backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), expected, rtol=1e-5)
