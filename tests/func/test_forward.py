"""`jvp`, `jacfwd`, `hessian`: what is this library's own; the rest is compared with PyTorch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import flambeau
from flambeau import func, nn


def vector(*values):
    return flambeau.tensor(values or (1.0, 2.0, 3.0))


def test_tangents_take_the_dtype_of_their_primals():
    x = vector()
    _, tangent = func.jvp(lambda x: x * x, (x,), (x.double(),))
    assert tangent.dtype is flambeau.float32


def test_integers_have_zero_tangents():
    x = vector()
    output, tangent = func.jvp(lambda x: (x * 2, x.long()), (x,), (x,))
    assert output[1].tolist() == [1, 2, 3]
    assert tangent[1].tolist() == [0, 0, 0]


def test_tangents_are_recorded():
    x = vector().requires_grad_()
    _, tangent = func.jvp(lambda x: x**3, (x,), (flambeau.ones(3),))
    tangent.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0, 18.0]


def test_recorded_tangents_are_differentiated_again():
    w = flambeau.tensor(2.0, requires_grad=True)
    x = vector()
    _, tangent = func.jvp(lambda x: x * w**3, (x,), (x,))
    (first,) = flambeau.autograd.grad(tangent.sum(), w, create_graph=True)
    (second,) = flambeau.autograd.grad(first, w)
    assert (first.item(), second.item()) == (72.0, 72.0)


def test_a_recorded_transformation_is_freed_like_a_node():
    w = flambeau.tensor(2.0, requires_grad=True)
    output, _ = func.jvp(lambda x: x * w, (vector(),), (vector(),))
    output.sum().backward()
    with pytest.raises(RuntimeError, match=r"TransformBackward.*retain_graph"):
        output.sum().backward()


def test_a_linear_approximation():
    output, push = func.linearize(lambda x: x**3, flambeau.tensor(2.0))
    assert (output.item(), push(flambeau.tensor(1.0)).item()) == (8.0, 12.0)


def test_the_hessian_of_a_module_trains_it():
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    x = flambeau.tensor([0.3, -0.4], dtype=flambeau.float64)

    def curvature():
        return func.hessian(lambda x: net(x).squeeze())(x).pow(2).sum()

    curvature().backward()
    weight = net[0].weight
    gradient = weight.grad[0, 0].item()
    with flambeau.no_grad():
        weight[0, 0] += 1e-5
        higher = curvature()
        weight[0, 0] -= 2e-5
        lower = curvature()
    assert gradient == pytest.approx((higher - lower).item() / 2e-5, rel=1e-5)


def test_the_hessian_is_jaxs():
    def function(x):
        return (x**3).sum() * x[0].exp()

    x = vector(0.1, 0.2, 0.3)
    expected = jax.hessian(lambda array: function(flambeau.from_jax(array)).jax())(x.jax())
    assert jnp.allclose(func.hessian(function)(x).jax(), expected)


def test_a_compiled_hessian():
    hessian = func.hessian(lambda x: (x**3).sum())
    x = vector()
    assert flambeau.compile(hessian)(x).tolist() == hessian(x).tolist()


def test_what_is_neither_primal_nor_tangent_is_refused():
    with pytest.raises(ValueError, match="float"):
        func.jvp(lambda x: x, (3.0,), (1.0,))
    with pytest.raises(ValueError, match="float"):
        func.jvp(lambda x: x, (vector(),), (1.0,))


def test_keys_may_be_in_another_order():
    primals = {"z": vector(), "a": flambeau.tensor(2.0)}
    tangents = {"a": flambeau.tensor(1.0), "z": vector()}
    _, tangent = func.jvp(lambda d: {"s": d["z"] * d["a"]}, (primals,), (tangents,))
    assert tangent["s"].tolist() == [3.0, 6.0, 9.0]
    both, pull = func.vjp(lambda d: {"s": d["z"].sum(), "p": d["a"] * 5}, primals)
    assert list(both) == ["s", "p"]
    (found,) = pull({"p": flambeau.tensor(10.0), "s": flambeau.tensor(1.0)})
    assert (found["z"].tolist(), found["a"].item()) == ([1.0] * 3, 50.0)
    mapped = func.vmap(lambda d: d["z"] * d["a"], in_dims=({"a": None, "z": 0},))
    assert mapped(primals).tolist() == [2.0, 4.0, 6.0]


def test_a_strict_product_names_the_output_that_is_independent():
    x = vector()
    with pytest.raises(RuntimeError, match="output 1"):
        func.jvp(lambda x: (x, x.detach()), (x,), (x,), strict=True)
    dropout, w = nn.Dropout(0.5), flambeau.tensor(2.0, requires_grad=True)
    flambeau.manual_seed(0)
    expected = func.jvp(lambda x: dropout(x * w), (x,), (x,))
    flambeau.manual_seed(0)
    found = func.jvp(lambda x: dropout(x * w), (x,), (x,), strict=True)
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]


@pytest.mark.parametrize(
    "write",
    [
        lambda x, index, part: x.index_put((index,), part),
        lambda x, index, part: x.index_copy(0, index, part),
        lambda x, index, part: x.scatter(0, index, part),
        lambda x, index, part: x.put(index, part),
        lambda x, index, part: x.index_add(0, index, part),
        lambda x, index, part: x.masked_scatter(flambeau.tensor([True, False, True]), part),
    ],
)
def test_writes_at_indices_are_differentiated_forward(write):
    index = flambeau.tensor([2, 0])

    def function(x, y):
        return write(x * x, index, y * y).pow(2).sum()

    x, y = vector().double(), flambeau.tensor([5.0, 6.0], dtype=flambeau.float64)
    first, second = func.jacfwd(function, (0, 1))(x, y), func.jacrev(function, (0, 1))(x, y)
    assert [each.tolist() for each in first] == [each.tolist() for each in second]
    forward = func.hessian(function, (0, 1))(x, y)
    backward = func.jacrev(func.jacrev(function, (0, 1)), (0, 1))(x, y)
    assert [[b.tolist() for b in a] for a in forward] == [[b.tolist() for b in a] for a in backward]


def test_what_has_no_forward_derivative_says_so():
    ends = flambeau.tensor([1, 3], dtype=flambeau.int32)
    left, right = flambeau.ones(2, 3), flambeau.ones(3, 2)

    def function(x):
        return nn.functional.grouped_mm(x, right, offs=ends)

    with pytest.raises(NotImplementedError, match="vjp"):
        func.jvp(function, (left,), (left,))
