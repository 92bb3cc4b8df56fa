"""Native kernels in programs over eight devices: each device calls them with its part."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from flambeau.core.devices import native
from flambeau.ops.native import attention, call, cross_entropy, pooling, rows
from flambeau.ops.native import convolution as native_convolution
from flambeau.ops.neural.attention import scaled_dot_product_attention
from flambeau.ops.neural.losses import loss
from flambeau.ops.neural.normalization import layer_norm
from flambeau.ops.neural.softmax import log_softmax, softmax
from flambeau.ops.neural.spatial.convolution import conv2d, conv_transpose2d
from flambeau.ops.neural.spatial.pooling import max_pool2d

# The devices of one process get none otherwise; those of several processes do.
native._has_one_cpu = lambda: True
native._loaded.cache_clear()
native.native_kernels.cache_clear()
pytestmark = pytest.mark.skipif(
    not native.native_kernels(),
    reason="the native kernels are not installed; `make kernels` builds them",
)

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


FILTERS, BACK = normal(6, 4, 3, 3), normal(4, 6, 4, 4)
WEIGHT, BIAS = normal(2, 37)
CLASSES = np.arange(8) * 4
LATER = np.triu(np.full((16, 16), -np.inf, np.float32), 1)
IMAGES, ROWS, QUERIES = normal(8, 4, 9, 9), normal(8, 6, 37), normal(8, 2, 16, 8)


def attend(query, mask=None, is_causal=False):
    return scaled_dot_product_attention.op.function(
        query, jnp.sin(query), jnp.cos(query), mask, None, 0.0, is_causal, None, False
    )


# A function of arrays, what it is given, and which of these have samples.
CASES = {
    "conv2d": (lambda x, w: conv2d.op.function(x, w, None, 1, 1, 1, 1), (IMAGES, FILTERS), (0,)),
    "conv_transpose2d": (
        lambda x, w: conv_transpose2d.op.function(x, w, None, 2, 1, 0, 1, 1), (IMAGES, BACK), (0,),
    ),
    "max_pool2d": (lambda x: max_pool2d.op.function(x, 3, 2, 1), (IMAGES,), (0,)),
    "cross_entropy": (
        lambda x: loss.cross_entropy.op.function(x, CLASSES, reduction="none"), (ROWS[:, 0],), (0,),
    ),
    "softmax": (lambda x: softmax.op.function(x, -1, None), (ROWS,), (0,)),
    "log_softmax": (lambda x: log_softmax.op.function(x, -1, None), (ROWS,), (0,)),
    "layer_norm": (
        lambda *arrays: layer_norm.op.function(arrays[0], (37,), *arrays[1:], 1e-5),
        (ROWS, WEIGHT, BIAS), (0,),
    ),
    "attention": (attend, (QUERIES,), (0,)),
    "attention, causal": (lambda x: attend(x, None, True), (QUERIES,), (0,)),
    "attention, mask": (attend, (QUERIES, LATER), (0,)),
    "attention, a mask for each": (attend, (QUERIES, normal(8, 1, 16, 16)), (0, 1)),
}  # fmt: skip
CASE = pytest.mark.parametrize("name", CASES)


@pytest.fixture(autouse=True)
def also_small_arrays(monkeypatch):
    for module in (cross_entropy, pooling, rows):
        monkeypatch.setattr(module, "_FEWEST_ELEMENTS", 1)


def with_gradients(function, count):
    def compute(*arrays):
        def loss(*arrays):
            return jnp.sum(jnp.sin(function(*arrays)))

        return function(*arrays), jax.grad(loss, tuple(range(count)))(*arrays)

    return compute


def by_xla(monkeypatch, compute, arrays):
    with monkeypatch.context() as patch:
        for module in (attention, cross_entropy, native_convolution, pooling, rows):
            patch.setattr(module, "has_kernel", lambda *_: False)
        return jax.jit(lambda *each: compute(*each))(*arrays)


def close(found, expected):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def mesh_of(kind=AxisType.Auto):
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind,) * 2)


def placed(arrays, specs, mesh=None):
    mesh = mesh or mesh_of()
    return [
        jax.device_put(each, NamedSharding(mesh, spec))
        for each, spec in zip(arrays, specs, strict=True)
    ]


def check(monkeypatch, name, specs):
    """The text of the compiled program, whose numbers are those of XLA's operators."""
    function, arrays, _ = CASES[name]
    compute = with_gradients(function, len(arrays))
    program = jax.jit(compute).lower(*placed(arrays, specs)).compile()
    close(program(*placed(arrays, specs)), by_xla(monkeypatch, compute, arrays))
    text = program.as_text()
    assert 'custom_call_target="flambeau_' in text
    return text


@CASE
@pytest.mark.parametrize("axes", [("data",), ("data", "model")])
def test_each_device_calls_them_with_its_samples(monkeypatch, name, axes):
    _, arrays, samples = CASES[name]
    specs = [P(axes) if place in samples else P() for place in range(len(arrays))]
    text = check(monkeypatch, name, specs)
    assert "all-gather" not in text
    assert "all-to-all" not in text


@CASE
def test_arrays_that_are_divided_otherwise_give_the_same_numbers(monkeypatch, name):
    arrays = CASES[name][1]
    specs = [
        P(None, "model") if each.ndim > 1 and each.shape[1] % 2 == 0 else P() for each in arrays
    ]
    check(monkeypatch, name, specs)


@CASE
def test_whole_arrays_give_the_same_numbers(monkeypatch, name):
    check(monkeypatch, name, [P()] * len(CASES[name][1]))


def test_heads_that_are_divided_are_not_gathered(monkeypatch):
    text = check(monkeypatch, "attention", [P("data", "model")])
    assert "all-gather" not in text


def test_samples_that_no_number_of_devices_divides(monkeypatch):
    function, (images, filters), _ = CASES["conv2d"]
    compute = with_gradients(function, 2)
    given = images[:6], filters
    found = jax.jit(compute)(*placed(given, [P("model"), P()]))
    close(found, by_xla(monkeypatch, compute, given))


@CASE
def test_one_device_calls_them_as_it_does_alone(name):
    function, arrays, _ = CASES[name]
    compute = with_gradients(function, len(arrays))
    text = jax.jit(compute).lower(*arrays).as_text()
    assert "custom_call @flambeau_" in text
    assert "num_batch_dims" not in text


def test_inside_of_shard_map_each_part_is_a_call(monkeypatch):
    function, (images, filters), _ = CASES["conv2d"]
    mesh = mesh_of()
    parts = jax.shard_map(
        function, mesh=mesh, in_specs=(P("data"), P()), out_specs=P("data"), check_vma=False
    )
    found = jax.jit(parts)(*placed((images, filters), [P("data"), P()], mesh))
    close(found, by_xla(monkeypatch, function, (images, filters)))


def test_meshes_with_explicit_axes_leave_them_out():
    (images,) = placed([IMAGES], [P("data")], mesh_of(AxisType.Explicit))
    assert call.has_kernel("convolution", IMAGES)
    assert not call.has_kernel("convolution", images)


def test_batches_of_batches():
    found = jax.vmap(jax.vmap(lambda x: softmax.op.function(x, -1, None), 1), 0)(
        normal(2, 16, 3, 8)
    )
    assert found.shape == (2, 3, 16, 8)
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-5)
