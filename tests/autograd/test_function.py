"""Custom Functions: what is this library's own; the rest is compared with PyTorch."""

from __future__ import annotations

import contextlib
import gc
import math
import weakref

import jax
import jax.numpy as jnp
import pytest

import flambeau
from flambeau import func
from flambeau.autograd import Function
from flambeau.autograd.graph import save_on_cpu


class Sevenfold(Function):
    """Cubes, with seven times the square as its derivative, so that its own gradient shows."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 7 * x**2 * grad


class Scaled(Function):
    """Several inputs and outputs, attributes, integers and a saved output."""

    @staticmethod
    def forward(ctx, x, w, scale):
        y = x * w * scale
        ctx.scale = scale
        ctx.save_for_backward(x, w, y)
        return y, (x > 0).long(), "text"

    @staticmethod
    def backward(ctx, grad, _, __):
        x, w, _y = ctx.saved_tensors
        return grad * w * ctx.scale * 10, grad * x * ctx.scale * 100, None


def leaf(*values):
    return flambeau.tensor(values or (1.0, 2.0), requires_grad=True)


def test_any_attribute_can_be_set_on_the_context():
    class Busy(Function):
        @staticmethod
        def forward(ctx, x):
            for name in ("edges", "outputs", "sequence", "kernel", "results", "pull", "spent"):
                setattr(ctx, name, name)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            assert ctx.edges == "edges"
            return grad * 3

    x = leaf()
    Busy.apply(x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_write_after_forward_does_not_touch_what_was_saved():
    x = leaf()
    y = Sevenfold.apply(x)
    with flambeau.no_grad():
        x.zero_()
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 28.0]


def test_a_saved_output_does_not_keep_its_graph_alive():
    class Inverse(Function):
        @staticmethod
        def forward(ctx, x):
            y = 1 / x
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return -y * y * grad

    y = Inverse.apply(leaf())
    node = weakref.ref(y.grad_fn)
    gc.disable()
    try:
        del y
        assert node() is None
    finally:
        gc.enable()


def test_arguments_taken_by_keyword_only_are_refused():
    class Keyword(Function):
        @staticmethod
        def forward(ctx, x, *, scale):
            return x * scale

    with pytest.raises(TypeError, match="scale"):
        Keyword.apply(leaf(), scale=2)


def test_an_instance_is_warned_of():
    with pytest.warns(DeprecationWarning, match=r"Sevenfold\.apply"):
        Sevenfold()


def test_gradients_of_a_wrong_shape_are_named():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return flambeau.ones(3)

    with pytest.raises(RuntimeError, match=r"WrongBackward.*gradient 0.*\[3\].*\[2\]"):
        Wrong.apply(leaf()).sum().backward()


def test_functions_run_inside_a_compiled_function():
    def step(x):
        Sevenfold.apply(x).sum().backward()
        return x.grad

    x = leaf()
    assert flambeau.compile(step)(x).tolist() == [7.0, 28.0]


# JAX's transformations


def as_jax(function):
    return lambda array: function(flambeau.from_jax(array)).jax()


def test_jax_differentiates_by_backward():
    x = jnp.asarray([1.0, 2.0])
    loss = as_jax(lambda x: Sevenfold.apply(x).sum())
    assert jax.grad(loss)(x).tolist() == [7.0, 28.0]
    assert jax.jit(jax.grad(loss))(x).tolist() == [7.0, 28.0]
    assert jax.jit(loss)(x) == loss(x) == 9.0


def test_jax_differentiates_backward_itself():
    slope = jax.grad(as_jax(lambda x: Sevenfold.apply(x)))
    assert jax.grad(slope)(jnp.asarray(2.0)) == 28.0


def test_jax_maps_and_differentiates():
    slope = jax.vmap(jax.grad(as_jax(lambda x: Sevenfold.apply(x))))
    assert slope(jnp.asarray([1.0, 2.0])).tolist() == [7.0, 28.0]


def test_jax_sees_several_inputs_and_outputs():
    seen = []

    def loss(x, w):
        y, positive, text = Scaled.apply(flambeau.from_jax(x), flambeau.from_jax(w), 2)
        seen.append((text, positive.dtype))
        return y.sum().jax()

    x, w = jnp.asarray([1.0, 2.0]), jnp.asarray([3.0, 4.0])
    by_x, by_w = jax.grad(loss, (0, 1))(x, w)
    assert by_x.tolist() == [60.0, 80.0]
    assert by_w.tolist() == [200.0, 400.0]
    assert seen[0] == ("text", flambeau.int64)


def test_jax_sees_complex_gradients_as_pytorch_does():
    class Square(Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, grad):
            (z,) = ctx.saved_tensors
            return grad * (2 * z).conj()

    z = jnp.asarray([1 + 2j, 3 - 1j])
    own = jax.grad(as_jax(lambda z: Square.apply(z).real.sum()))(z)
    assert jnp.allclose(own, jax.grad(lambda z: jnp.sum((z * z).real))(z))


def test_a_mapped_function_is_differentiated_by_backward():
    w = leaf()
    mapped = func.vmap(lambda x: Sevenfold.apply(x * w).sum())
    mapped(flambeau.ones(3, 2)).sum().backward()
    assert w.grad.tolist() == [21.0, 84.0]


def test_a_function_with_backward_only_has_no_forward_mode():
    x = flambeau.ones(2)
    with pytest.raises(NotImplementedError, match="backward only"):
        func.jvp(Sevenfold.apply, (x,), (x,))


def test_gradients_pass_what_forward_cannot_differentiate():
    class StraightThrough(Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = leaf(0.4, 1.6)
    StraightThrough.apply(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert jax.grad(as_jax(lambda x: StraightThrough.apply(x)))(jnp.asarray(0.4)) == 1.0


def test_forward_runs_once_under_jax():
    runs = []

    class Masked(Function):
        @staticmethod
        def forward(ctx, x):
            runs.append(None)
            ctx.mask = flambeau.rand(2).to(x.dtype)
            return x * ctx.mask

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.mask

    def function(x):
        with flambeau.random.key_scope(jax.random.key(0)):
            return Masked.apply(x).sum()

    value, slope = jax.value_and_grad(as_jax(function))(jnp.asarray([1.0, 1.0]))
    assert len(runs) == 1
    assert jnp.allclose(value, slope.sum())


def test_a_saved_output_is_differentiated_again_by_jax():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return grad * y

    slope = jax.grad(as_jax(lambda x: Exp.apply(x) * 2))
    assert jnp.allclose(jax.grad(jax.grad(slope))(jnp.asarray(1.0)), 2 * jnp.exp(1.0))


def test_a_sparse_matrix_is_saved_for_backward():
    class Product(Function):
        @staticmethod
        def forward(ctx, values, dense):
            positions = flambeau.tensor([[0, 1], [1, 0]])
            matrix = flambeau.sparse_coo_tensor(positions, values, (2, 2))
            ctx.save_for_backward(matrix, dense)
            return matrix @ dense

        @staticmethod
        def backward(ctx, grad):
            matrix, dense = ctx.saved_tensors
            assert matrix.is_sparse
            return (grad @ dense.t())[[0, 1], [1, 0]], matrix.t() @ grad

    values = flambeau.tensor([2.0, 3.0], requires_grad=True)
    dense = flambeau.ones(2, 2, requires_grad=True)
    for hooks in (contextlib.nullcontext(), save_on_cpu()):
        values.grad = dense.grad = None
        with hooks:
            result = Product.apply(values, dense)
        result.sum().backward()
        assert values.grad.tolist() == [2, 2]
        assert dense.grad.tolist() == [[3, 3], [2, 2]]


def _exponential(kind: str) -> type[flambeau.autograd.Function]:
    """``x * exp(x)``, whose forward saves what it computes."""

    class Exponential(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x, power):
            e, mask = x.exp(), (x > 0).to(x.dtype)
            if kind == "noise":
                e = e * flambeau.rand(1, dtype=x.dtype)
            if kind == "constant noise":
                mask = mask + 0 * flambeau.rand(1, dtype=x.dtype)
            ctx.save_for_backward(*(() if kind == "gone" else (x,)), e, mask)
            return x * e * mask

        @staticmethod
        def backward(ctx, g):
            e, mask = ctx.saved_tensors[-2:]
            x = 0 if kind == "gone" else ctx.saved_tensors[0]
            return g * (e + x * e) * mask, None

    return Exponential


def _derivatives(function, of=lambda x: x) -> list[float]:
    x = flambeau.tensor([1.0], dtype=flambeau.float64, requires_grad=True)
    found = of(x)
    y, values = function.apply(found, 2).sum(), []
    del found
    for _ in range(3):
        (y,) = flambeau.autograd.grad(y.sum(), x, create_graph=True)
        values.append(y.item())
    return values


@pytest.mark.parametrize("kind", ["", "constant noise"])
@pytest.mark.parametrize("of", [lambda x: x, lambda x: x * 1])
def test_second_derivatives_follow_what_forward_computes_and_saves(kind, of):
    e = math.e
    assert _derivatives(_exponential(kind), of) == pytest.approx([2 * e, 3 * e, 4 * e])


def test_second_derivatives_follow_what_forward_computes_in_another_gear():
    class Softplus(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            # Its last bits depend on who computes it, NumPy or XLA.
            softplus = (x.exp() + 1).log()
            ctx.save_for_backward(softplus)
            return softplus * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = flambeau.linspace(-3, 3, 64).requires_grad_()
    with flambeau.compiler.gears(interpret=True):
        (first,) = flambeau.autograd.grad(Softplus.apply(x).sum(), x, create_graph=True)
    with flambeau.compiler.gears(interpret=False):
        (found,) = flambeau.autograd.grad(first.sum(), x)
    flambeau.testing.assert_close(found, x.detach().sigmoid())


def test_second_derivatives_follow_saved_intermediates_in_compiled_functions():
    function = _exponential("")

    @flambeau.compile
    def second(x):
        x = x.detach().requires_grad_()
        (g,) = flambeau.autograd.grad(function.apply(x, 2).sum(), x, create_graph=True)
        return flambeau.autograd.grad(g.sum(), x)[0]

    x = flambeau.tensor([1.0], dtype=flambeau.float64)
    assert second(x).item() == pytest.approx(3 * math.e)


@pytest.mark.parametrize(
    ("kind", "reason"), [("noise", "other numbers"), ("gone", "not there any more")]
)
def test_a_saved_intermediate_that_cannot_be_computed_again_is_an_error(kind, reason):
    with pytest.raises(RuntimeError, match=rf"Exponential.*saved tensor \d of shape.*{reason}"):
        _derivatives(_exponential(kind), lambda x: x * 1)


def test_a_function_that_saves_intermediates_is_freed_with_its_result():
    x = flambeau.ones(3, requires_grad=True)
    y = _exponential("").apply(x, 2)
    node = weakref.ref(y.grad_fn)
    del y
    assert node() is None


def test_second_derivatives_follow_intermediates_that_hooks_move():
    with save_on_cpu():
        assert _derivatives(_exponential(""))[1] == pytest.approx(3 * math.e)
