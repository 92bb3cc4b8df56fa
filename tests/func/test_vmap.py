"""`vmap`: what is this library's own; the rest is compared with PyTorch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau
from flambeau import func, nn


def matrix():
    return flambeau.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])


FUNCTIONS = {
    "sum": lambda x: x.sum(),
    "outer": lambda x: x[:, None] * x,
    "softmax": lambda x: x.softmax(0),
    "pair": lambda x: (x.exp(), x.max()),
    "index": lambda x: x[flambeau.tensor([1, 0])],
    "linear": lambda x: nn.functional.linear(x, flambeau.ones(3, 2)),
    "norm": lambda x: nn.functional.layer_norm(x, (2,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(in_dim=st.sampled_from([0, 1]), chunk_size=st.sampled_from([None, 1, 2]))
def test_a_mapped_function_equals_a_loop(name, in_dim, chunk_size):
    function = FUNCTIONS[name]
    batch = matrix() if in_dim == 0 else matrix().T
    found = func.vmap(function, in_dims=in_dim, chunk_size=chunk_size)(batch)
    rows = [function(batch.select(in_dim, i)) for i in range(3)]
    if not isinstance(found, tuple):
        found, rows = (found,), [(row,) for row in rows]
    for whole, parts in zip(found, zip(*rows, strict=True), strict=True):
        assert flambeau.allclose(whole, flambeau.stack(parts))


def test_keyword_arguments_are_the_same_for_all():
    found = func.vmap(lambda x, *, k: x * k)(matrix(), k=flambeau.tensor([1.0, 10.0]))
    assert found.tolist() == [[0.0, 10.0], [2.0, 30.0], [4.0, 50.0]]


def test_arrays_are_mapped_too():
    assert func.vmap(lambda x: x.sum())(jnp.ones((3, 2))).tolist() == [2.0, 2.0, 2.0]


def test_a_tensor_made_inside_can_be_written():
    def function(x):
        y = flambeau.zeros(2)
        y[0] = x.sum()
        return y

    assert func.vmap(function)(matrix()).tolist() == [[1.0, 0.0], [5.0, 0.0], [9.0, 0.0]]


def test_a_module_is_mapped_and_trained():
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    func.vmap(net)(matrix()).sum().backward()
    mapped = [each.grad.clone() for each in net.parameters()]
    net.zero_grad()
    net(matrix()).sum().backward()
    for one, other in zip(mapped, net.parameters(), strict=True):
        assert flambeau.allclose(one, other.grad, atol=1e-6)


def test_a_mapped_function_is_differentiated_twice():
    w = flambeau.tensor([1.0, 2.0], requires_grad=True)
    y = func.vmap(lambda x: (x * w**3).sum())(matrix())
    (first,) = flambeau.autograd.grad(y.sum(), w, create_graph=True)
    (second,) = flambeau.autograd.grad(first.sum(), w)
    assert first.tolist() == [18.0, 108.0]
    assert second.tolist() == [36.0, 108.0]


def test_what_is_captured_may_be_a_result_or_a_view():
    w = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    doubled = w * 2

    def function(x):
        inner = w * 3
        return (x * doubled[0] + inner[1]).sum()

    func.vmap(function)(matrix()).sum().backward()
    assert w.grad.tolist() == [[12.0, 18.0], [9.0, 9.0]]


def test_what_no_grad_hides_is_constant():
    w = flambeau.tensor([1.0, 2.0], requires_grad=True)

    def function(x):
        with flambeau.no_grad():
            hidden = x * w
        return (hidden * w).sum()

    func.vmap(function)(matrix()).sum().backward()
    assert w.grad.tolist() == [6.0, 18.0]


def test_nested_maps_capture_what_is_outside_both():
    w = flambeau.tensor(2.0, requires_grad=True)
    found = func.vmap(func.vmap(lambda x: x * w * w))(matrix())
    found.sum().backward()
    assert w.grad.item() == 60.0


def test_an_inner_gradient_by_what_an_outer_map_captured():
    w = flambeau.tensor(2.0, requires_grad=True)

    def function(x):
        return func.grad(lambda t: (t * t * w).sum())(x)

    found = func.vmap(function)(matrix())
    found.sum().backward()
    assert found[2].tolist() == [16.0, 20.0]
    assert w.grad.item() == 30.0


def test_a_map_inside_a_gradient_inside_a_map():
    def function(x):
        return func.grad(lambda t: func.vmap(lambda s: s * t.sum())(matrix()[:, 0]).sum())(x)

    assert func.vmap(function)(matrix()).tolist() == [[6.0, 6.0]] * 3


def test_different_draws_are_those_of_a_loop():
    flambeau.manual_seed(0)
    expected = [flambeau.rand(2).tolist() for _ in range(3)]
    flambeau.manual_seed(0)
    found = func.vmap(lambda x: x * 0 + flambeau.rand(2), randomness="different")(matrix())
    assert found.tolist() == expected


def test_drawing_is_forbidden_inside_only():
    with pytest.raises(RuntimeError, match="randomness"):
        func.vmap(lambda x: flambeau.rand(2))(matrix())
    assert flambeau.rand(2).shape == (2,)


def test_a_write_to_an_argument_that_requires_grad_is_refused():
    x = matrix().requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        func.vmap(lambda x: x.add_(1))(x)
    assert x.tolist() == matrix().tolist()


def test_buffers_of_a_module_outside_cannot_be_written():
    norm = nn.BatchNorm1d(2)
    with pytest.raises(RuntimeError, match="outside"):
        func.vmap(norm)(flambeau.ones(3, 4, 2))
    assert norm.num_batches_tracked.item() == 0


def test_a_compiled_map():
    mapped = func.vmap(func.grad(lambda x: (x**3).sum()))
    assert flambeau.compile(mapped)(matrix()).tolist() == mapped(matrix()).tolist()


def test_jax_maps_what_is_mapped_here():
    mapped = func.vmap(lambda x: x * 2)
    found = jax.vmap(lambda array: mapped(flambeau.from_jax(array)).jax())(jnp.ones((2, 3)))
    assert found.tolist() == [[2.0] * 3] * 2


def test_the_modes_are_as_before_after_an_error():
    with pytest.raises(ZeroDivisionError):
        func.vmap(lambda x: 1 / 0)(matrix())
    outside = flambeau.zeros(1)
    assert outside.add_(1).item() == 1.0
    assert flambeau.rand(1).shape == (1,)


def test_backward_hooks_that_would_not_run_are_an_error():
    net, seen = nn.Linear(2, 1), []
    net.register_full_backward_hook(lambda *given: seen.append(given))
    for transform in (
        lambda: func.vmap(net)(matrix()),
        lambda: func.jvp(net, (matrix(),), (matrix(),)),
        lambda: func.grad(lambda x: func.vmap(net)(x).sum())(matrix()),
    ):
        with pytest.raises(RuntimeError, match="hooks of this Linear"):
            transform()
    net.requires_grad_(False)
    with pytest.raises(RuntimeError, match="hooks of this Linear"):
        func.vmap(net)(matrix().requires_grad_())
    assert func.vmap(net)(matrix()).shape == (3, 1)
    assert func.vmap(func.grad(lambda x: net(x).sum()))(matrix()).shape == (3, 2)
    assert len(seen) == 1


def test_a_traced_value_does_not_stay_in_a_module():
    class Keeping(nn.Module):
        def forward(self, x):
            self.last = x
            return x

    module = Keeping()
    with pytest.raises(RuntimeError, match=r"Keeping assigned \['last'\]"):
        func.vmap(lambda x: func.functional_call(module, {}, x))(matrix())
    assert not hasattr(module, "last")


def test_chunks_share_draws():
    draw = func.vmap(lambda x: x * 0 + flambeau.rand(2), randomness="same", chunk_size=2)
    flambeau.manual_seed(0)
    expected = flambeau.rand(2).tolist()
    flambeau.manual_seed(0)
    assert draw(matrix()).tolist() == [expected] * 3
    assert draw(matrix().requires_grad_())[2].tolist() != expected


def test_the_meta_device_has_no_values_to_map():
    meta = flambeau.zeros(2, 3, device="meta")
    for transform in (
        lambda: func.vmap(flambeau.exp)(meta),
        lambda: func.jacfwd(flambeau.exp)(meta),
    ):
        with pytest.raises(RuntimeError, match="meta"):
            transform()


PARTS = {
    "select": lambda x, i: x[i],
    "select beside": lambda x, i: x[0, i],
    "slice then select": lambda x, i: x[1:][i],
    "select twice": lambda x, i: x[i][i],
    "select and transpose": lambda x, i: x.T[i] * 2,
    "two uses": lambda x, i: x[i] + x.sum(),
}


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("name", PARTS)
def test_a_captured_part_that_begins_where_an_argument_says_has_its_gradient(name, depth):
    places = flambeau.tensor([1, 0, 1])
    expected, found = (
        flambeau.arange(9.0).reshape(3, 3).requires_grad_(),
        flambeau.arange(9.0).reshape(3, 3).requires_grad_(),
    )
    mapped = func.vmap(lambda i: PARTS[name](found, i))
    if depth == 2:
        mapped, given = func.vmap(mapped), places[None]
    else:
        given = places
    whole = mapped(given).reshape(-1)
    parts = flambeau.stack([PARTS[name](expected, int(i)) for i in places]).reshape(-1)
    assert flambeau.equal(whole, parts)
    weights = flambeau.arange(1.0, whole.numel() + 1)
    (whole * weights).sum().backward()
    (parts * weights).sum().backward()
    assert flambeau.equal(found.grad, expected.grad)


def test_a_captured_part_of_a_computed_tensor_has_its_gradient_and_tangent():
    places = flambeau.tensor([2, 0])
    weight = flambeau.arange(3.0).requires_grad_()
    (slope,) = flambeau.autograd.grad(
        func.vmap(lambda i: (weight * 2)[i] ** 2)(places).sum(), weight
    )
    assert slope.tolist() == [0.0, 0.0, 16.0]
    with flambeau.autograd.forward_ad.dual_level():
        dual = flambeau.autograd.forward_ad.make_dual(
            flambeau.arange(3.0), flambeau.tensor([1.0, 2.0, 3.0])
        )
        mapped = func.vmap(lambda i: dual[i] ** 2)(places)
        tangent = flambeau.autograd.forward_ad.unpack_dual(mapped).tangent
    assert tangent.tolist() == [12.0, 0.0]


def test_a_captured_part_cannot_be_written():
    for weight in (flambeau.ones(3), flambeau.ones(3).requires_grad_()):
        with pytest.raises(RuntimeError):
            func.vmap(lambda i, x=weight: x[i].fill_(0.0))(flambeau.tensor([1]))
        assert weight.tolist() == [1.0] * 3
