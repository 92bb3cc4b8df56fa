"""`grad`, `vjp`, `jacrev`: what is this library's own; the rest is compared with PyTorch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import flambeau
from flambeau import func, nn


def vector(*values):
    return flambeau.tensor(values or (1.0, 2.0, 3.0))


def square(x):
    return (x * x).sum()


def test_the_value_comes_first_in_jaxs_order():
    value, gradient = func.value_and_grad(square)(vector())
    assert value.item() == 14.0
    assert gradient.tolist() == [2.0, 4.0, 6.0]


def test_aux_comes_with_the_value():
    (value, aux), gradient = func.value_and_grad(lambda x: (square(x), "aux"), has_aux=True)(
        vector()
    )
    assert (value.item(), aux, gradient.tolist()) == (14.0, "aux", [2.0, 4.0, 6.0])


def test_arrays_are_differentiated_by_too():
    assert func.grad(square)(jnp.asarray([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_what_it_gives_requires_grad_only_if_something_outside_does():
    assert not func.grad(square)(vector()).requires_grad
    assert func.grad(square)(vector().requires_grad_()).requires_grad
    _, pull = func.vjp(square, vector())
    assert not pull(flambeau.ones(()))[0].requires_grad


def test_hooks_run_on_the_tensors_inside():
    seen = []

    def function(x):
        x.register_hook(lambda grad: seen.append(grad.tolist()))
        return square(x)

    func.grad(function)(vector())
    assert seen == [[2.0, 4.0, 6.0]]


def test_the_arguments_grad_is_left_alone():
    x = vector().requires_grad_()
    func.grad(square)(x)
    assert x.grad is None


def test_a_derivative_of_the_fourth_order():
    derivative = lambda x: x**5  # noqa: E731
    for _ in range(4):
        derivative = func.grad(derivative)
    assert derivative(flambeau.tensor(2.0)).item() == 240.0


def test_inner_and_outer_arguments_are_not_confused():
    def outer(x):
        inner = func.grad(lambda y: x * y)(flambeau.tensor(1.0))
        return x * inner

    assert func.grad(outer)(flambeau.tensor(3.0)).item() == 6.0


def test_a_gradient_of_a_gradient_flows_to_the_tape():
    w = flambeau.tensor(2.0, requires_grad=True)
    found = func.grad(func.grad(lambda x: w * x**3))(flambeau.tensor(1.0))
    found.backward()
    assert found.item() == 12.0
    assert w.grad.item() == 6.0


def test_plain_jax_transforms_what_is_transformed_here():
    gradient = func.grad(square)

    def function(array):
        return gradient(flambeau.from_jax(array)).jax()

    x = jnp.asarray([1.0, 2.0])
    assert jax.jit(function)(x).tolist() == [2.0, 4.0]
    assert jax.vmap(function)(x).tolist() == [2.0, 4.0]
    assert jax.jacobian(function)(x).tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_a_compiled_function_transforms():
    layer = nn.Linear(2, 1)
    params = {name: each.detach() for name, each in layer.named_parameters()}

    def loss(params, x):
        return func.functional_call(layer, params, x).pow(2).sum()

    compiled = flambeau.compile(func.grad(loss))
    x = vector(1.0, 2.0)
    for _ in range(2):
        found = compiled(params, x)
    expected = func.grad(loss)(params, x)
    assert all(flambeau.allclose(found[name], expected[name]) for name in params)
    assert [type(each) for each in layer.parameters()] == [nn.Parameter] * 2


def test_complex_gradients_are_pytorchs():
    z = flambeau.tensor([1 + 2j, 3 - 1j])
    assert func.grad(lambda z: (z * z.conj()).real.sum())(z).tolist() == [2 + 4j, 6 - 2j]


def test_the_jacobian_is_jaxs():
    def function(x):
        return x[:, None] * flambeau.exp(x[None, :2])

    x = vector(0.1, 0.2, 0.3)
    expected = jax.jacobian(lambda array: function(flambeau.from_jax(array)).jax())(x.jax())
    for jacobian in (
        func.jacrev(function),
        func.jacrev(function, chunk_size=4),
        func.jacfwd(function),
    ):
        assert jnp.allclose(jacobian(x).jax(), expected)


def test_a_function_with_random_numbers_draws_once():
    def function(x):
        return x * flambeau.rand(3)

    flambeau.manual_seed(0)
    expected = flambeau.rand(3)
    flambeau.manual_seed(0)
    found = func.jacrev(function)(vector())
    assert found.diagonal().tolist() == expected.tolist()


@pytest.mark.parametrize("argnums", ["a", 1.0, (0, None), [0], ()])
def test_argument_numbers_must_be_numbers(argnums):
    for transform in (func.grad, func.jacrev, func.jacfwd):
        with pytest.raises(RuntimeError, match="argnums"):
            transform(square, argnums)(vector())


def test_jacobians_are_of_real_numbers():
    z = flambeau.tensor([1 + 2j])
    for transform in (func.jacrev, func.jacfwd, func.hessian):
        with pytest.raises(RuntimeError, match=r"input 0 is .*complex64"):
            transform(lambda z: (z * z.conj()).real.sum())(z)
    for transform in (func.jacrev, func.jacfwd):
        with pytest.raises(RuntimeError, match=r"output 1 is .*complex64"):
            transform(lambda x: (x, x * 1j))(vector())


def test_inference_mode_outside_does_not_hide_gradients():
    layer = nn.Linear(3, 1, bias=False)
    weights = {"weight": layer.weight.jax()}

    def loss(weights):
        return func.functional_call(layer, weights, jnp.ones(3, "float32")).sum()

    with flambeau.inference_mode():
        assert func.grad(square)(vector()).tolist() == [2.0, 4.0, 6.0]
        assert func.jacrev(square)(vector()).tolist() == [2.0, 4.0, 6.0]
        assert func.vjp(square, vector())[1](flambeau.ones(()))[0].tolist() == [2.0, 4.0, 6.0]
        assert func.hessian(square)(vector()).diagonal().tolist() == [2.0] * 3
        assert func.vmap(func.grad(square))(vector()[None]).tolist() == [[2.0, 4.0, 6.0]]
        assert jax.grad(loss)(weights)["weight"].tolist() == [[1.0] * 3]


@pytest.mark.parametrize("argnums", [(0, 0), (1, -1)])
def test_an_argument_cannot_be_named_twice(argnums):
    for transform in (func.grad, func.jacrev, func.jacfwd, func.hessian):
        with pytest.raises(RuntimeError, match="once"):
            transform(lambda a, b: (a * b).sum(), argnums)(vector(), vector())
