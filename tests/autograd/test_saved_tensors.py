"""`saved_tensors_hooks`: what is this library's own; the rest is compared with PyTorch."""

from __future__ import annotations

import gc
import weakref

import jax
import pytest

import flambeau
from flambeau import func, nn
from flambeau.autograd.graph import save_on_cpu, saved_tensors_hooks


def on_host():
    """Hooks that keep what is saved as NumPy arrays, and a list of the shapes that they packed."""
    shapes = []

    def pack(tensor):
        shapes.append(tuple(tensor.shape))
        return tensor.numpy(force=True)

    return saved_tensors_hooks(pack, flambeau.from_numpy), shapes


def leaf():
    return flambeau.tensor([1.0, 2.0], requires_grad=True)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.Linear(4, 4),
        lambda: nn.LSTM(4, 4),
        lambda: nn.LayerNorm(4),
        lambda: nn.MultiheadAttention(4, 2),
        lambda: nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 2, 2), nn.Flatten()),
        lambda: nn.Sequential(nn.Embedding(3, 4), nn.ReLU()),
    ],
)
def test_gradients_are_those_without_hooks(layer):
    layer = layer()
    x = flambeau.arange(12).reshape(3, 4) / 10
    if isinstance(layer, nn.Sequential) and isinstance(layer[0], nn.Embedding):
        x = flambeau.tensor([0, 2])
    arguments = (x, x, x) if isinstance(layer, nn.MultiheadAttention) else (x,)

    def gradients():
        layer.zero_grad()
        found = layer(*arguments)
        found = found[0] if isinstance(found, tuple) else found
        return found.pow(2).sum(), [each for each in layer.parameters() if each.requires_grad]

    loss, parameters = gradients()
    expected = flambeau.autograd.grad(loss, parameters)
    hooks, shapes = on_host()
    with hooks:
        loss, parameters = gradients()
    found = flambeau.autograd.grad(loss, parameters)
    assert shapes
    assert all(flambeau.allclose(a, b, atol=1e-6) for a, b in zip(found, expected, strict=True))


def test_shapes_alone_are_not_packed():
    hooks, shapes = on_host()
    with hooks:
        y = leaf().reshape(2, 1).sum() + 3
    assert shapes == []
    y.backward()


def test_the_arrays_themselves_are_let_go():
    class Kept:
        pass

    x = leaf()
    with saved_tensors_hooks(lambda tensor: (Kept(), tensor.tolist()), lambda kept: x):
        y = (x * 2).exp()
    alive = weakref.ref(y.grad_fn.packed[0].kept[0])
    y.sum().backward()
    del y
    gc.collect()
    assert alive() is None


def test_leaves_are_packed_as_themselves():
    layer, packed = nn.Linear(2, 2), []
    with saved_tensors_hooks(lambda tensor: packed.append(tensor) or tensor, lambda each: each):
        layer(flambeau.ones(2, requires_grad=True))
    assert any(each is layer.weight for each in packed)


def test_a_pack_hook_that_writes_is_refused():
    with (
        saved_tensors_hooks(lambda tensor: tensor.add_(1), lambda tensor: tensor),
        pytest.raises(RuntimeError, match=r"in place.*\[2\]"),
    ):
        leaf().exp()


@pytest.mark.parametrize("pair", [(3, len), (len, None)])
def test_hooks_are_functions(pair):
    with pytest.raises(TypeError, match="two functions"):
        saved_tensors_hooks(*pair)


def test_what_is_saved_goes_back_to_where_it_was():
    x = leaf()
    with save_on_cpu():
        y = x.exp()
    where, array = y.grad_fn.packed[0].kept
    assert where == x.jax().sharding
    assert array.device.platform == "cpu"
    y.sum().backward()
    assert flambeau.allclose(x.grad, y)


def test_nothing_is_packed_where_nothing_is_recorded():
    hooks, shapes = on_host()
    with hooks, flambeau.no_grad():
        leaf() * leaf()
    with hooks:
        flambeau.ones(2) * 2
    assert shapes == []


def test_transformations_under_hooks():
    packed = []
    with saved_tensors_hooks(lambda tensor: packed.append(1) or tensor, lambda tensor: tensor):
        gradient = func.grad(lambda x: (x**3).sum())
        assert gradient(flambeau.ones(2)).tolist() == [3.0, 3.0]
        assert func.vmap(gradient)(flambeau.ones(2, 2)).tolist() == [[3.0, 3.0]] * 2
        assert func.hessian(lambda x: (x**3).sum())(flambeau.ones(1)).tolist() == [[6.0]]
        function = lambda array: gradient(flambeau.from_jax(array)).jax()  # noqa: E731
        assert jax.jit(function)(flambeau.ones(2).jax()).tolist() == [3.0, 3.0]
    assert packed


def test_a_compiled_function_refuses_hooks_inside_and_ignores_them_outside():
    hooks, shapes = on_host()

    def inside(x):
        with hooks:
            return (x * x).sum()

    with pytest.raises(Exception, match="saved_tensors_hooks"):
        flambeau.compile(inside, fullgraph=True)(leaf())
    compiled = flambeau.compile(lambda x: (x * x).sum(), fullgraph=True)
    x = leaf()
    with hooks:
        y = compiled(x)
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert shapes == []


def test_the_gradient_does_not_ask_hooks_of_a_result():
    asked = []
    for operator in (flambeau.exp, lambda x: flambeau.softmax(x, 0), flambeau.linalg.vector_norm):
        x = leaf()
        expected = flambeau.autograd.grad(operator(x).sum(), x)[0]
        y = operator(x)
        saved = y.grad_fn._raw_saved_result
        saved.register_hooks(lambda t: t * 10, lambda t: asked.append(t) or t)
        assert flambeau.equal(y.grad_fn._saved_result, y * 10)
        asked.clear()
        loss = y.sum()
        assert flambeau.equal(*flambeau.autograd.grad(loss, x, retain_graph=True), expected)
        (first,) = flambeau.autograd.grad(loss, x, create_graph=True)
        assert flambeau.equal(first, expected)
        loss.backward()
        assert flambeau.equal(x.grad, expected)
        assert not asked


def test_a_packed_result_goes_with_the_graph():
    class Kept:
        pass

    y, kept = leaf().exp(), Kept()
    alive = weakref.ref(kept)
    objects = [kept]
    y.grad_fn._raw_saved_result.register_hooks(lambda tensor: objects.pop(), lambda kept: y)
    del kept
    y.sum().backward()
    gc.collect()
    with pytest.raises(RuntimeError, match="second time"):
        y.grad_fn._saved_result  # noqa: B018
    assert alive() is None
