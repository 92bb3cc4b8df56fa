"""Hooks on gradients see whole modules, and may change what flows."""

import pytest

import flambeau
from flambeau import nn


class Product(nn.Module):
    """Several operators on two inputs."""

    def forward(self, x, y):
        return x * y + x


def leaves():
    return (
        flambeau.tensor([1.0, 2.0], requires_grad=True),
        flambeau.tensor([3.0, 4.0], requires_grad=True),
    )


def test_full_hook_sees_the_gradients_of_the_whole_module():
    seen = []
    product = Product()
    product.register_full_backward_hook(lambda module, before, after: seen.append((before, after)))
    x, y = leaves()
    product(x, y).sum().backward()
    ((before, after),) = seen
    assert [each.tolist() for each in before] == [[4.0, 5.0], [1.0, 2.0]]
    assert [each.tolist() for each in after] == [[1.0, 1.0]]
    assert x.grad.tolist() == [4.0, 5.0]


def test_hooks_change_what_flows():
    product = Product()
    product.register_full_backward_pre_hook(lambda module, after: (after[0] * 2,))
    product.register_full_backward_hook(lambda module, before, after: (before[0], before[1] * 0))
    x, y = leaves()
    product(x, y).sum().backward()
    assert x.grad.tolist() == [8.0, 10.0]
    assert y.grad.tolist() == [0.0, 0.0]


def test_single_tensor_stands_for_a_tuple_of_one():
    class Double(nn.Module):
        def forward(self, x):
            return x * 2

    double = Double()
    double.register_full_backward_hook(lambda module, before, after: before[0] * 10)
    x, _ = leaves()
    double(x).sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]


def test_gradients_are_the_same_with_and_without_hooks():
    x, y = leaves()
    Product()(x, y).sum().backward()
    expected = x.grad, y.grad
    product = Product()
    product.register_full_backward_hook(lambda *given: None)
    a, b = leaves()
    product(a, b).sum().backward()
    assert flambeau.equal(a.grad, expected[0])
    assert flambeau.equal(b.grad, expected[1])


@pytest.mark.parametrize(
    ("register", "name"),
    [
        (nn.Module.register_full_backward_hook, "grad_input, which has 2"),
        (nn.Module.register_full_backward_pre_hook, "grad_output, which has 1"),
    ],
)
def test_wrong_number_of_gradients_is_counted(register, name):
    product = Product()
    register(product, lambda *given: (None, None, None))
    with pytest.raises(RuntimeError, match=f"3 values for {name}"):
        product(*leaves()).sum().backward()


def test_hook_without_input_gradients_warns_and_must_return_none():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(flambeau.ones(2))

        def forward(self, x):
            return x * self.weight

    weighted = Weighted()
    handle = weighted.register_full_backward_hook(lambda module, before, after: before)
    with pytest.warns(UserWarning, match="no input of Weighted requires grad"):
        weighted(flambeau.ones(2)).sum().backward()
    handle.remove()
    weighted.register_full_backward_hook(lambda module, before, after: after)
    with (
        pytest.warns(UserWarning, match="no input of Weighted requires grad"),
        pytest.raises(RuntimeError, match="hook of Weighted returned a grad_input"),
    ):
        weighted(flambeau.ones(2)).sum().backward()


def test_output_that_is_no_tensor_warns():
    class Named(nn.Module):
        def forward(self, x):
            return {"out": x * 2}

    named = Named()
    named.register_full_backward_hook(lambda *given: None)
    with pytest.warns(UserWarning, match="Named returned a dict"):
        named(leaves()[0])


@pytest.mark.parametrize(
    ("forward", "args", "reason"),
    [
        (lambda x, y: [x * y], leaves, "neither a Tensor nor a tuple"),
        (lambda x, y: x * y, lambda: (leaves()[0], 3), "something else than Tensors"),
        (lambda x, y: (x * y, x + y), leaves, "several operators made the outputs"),
        (lambda x, y: (x * y) * y, leaves, "more than one operator"),
    ],
)
def test_non_full_hook_says_why_it_misses_gradients(forward, args, reason):
    module = nn.Module()
    module.forward = forward
    module.register_backward_hook(lambda *given: None)
    with pytest.warns(FutureWarning, match=reason):
        module(*args())


def test_hooks_inside_a_compiled_step():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(flambeau.tensor([2.0, 3.0]))

        def forward(self, x):
            return x * self.weight

    weighted = Weighted()
    weighted.register_full_backward_pre_hook(lambda module, after: (after[0] * 10,))
    weighted.register_full_backward_hook(lambda module, before, after: (before[0] + 1,))

    def step(x):
        x = x.detach().requires_grad_()
        weighted(x).sum().backward()
        return x.grad

    x = flambeau.tensor([1.0, 1.0])
    assert step(x).tolist() == [21.0, 31.0]
    weighted.zero_grad()
    assert flambeau.compile(step)(x).tolist() == [21.0, 31.0]
    assert weighted.weight.grad.tolist() == [10.0, 10.0]


class First(nn.Module):
    """Returns the first of its inputs, doubled."""

    def forward(self, first, second):
        return first * 2


def test_input_without_influence_has_a_gradient_of_zeros():
    seen = []
    module = First()
    module.register_full_backward_hook(lambda module, grads, _: seen.append(grads))
    one, other = flambeau.ones(2, requires_grad=True), flambeau.ones(3, requires_grad=True)
    module(one, other).sum().backward()
    assert [grad.tolist() for grad in seen[0]] == [[2, 2], [0, 0, 0]]
    assert other.grad.tolist() == [0, 0, 0]


def test_input_without_influence_in_a_compiled_step():
    module = First()
    module.register_full_backward_hook(lambda module, grads, _: (grads[0], grads[1] + 7))

    @flambeau.compile
    def step(one, other):
        module(one, other).sum().backward()

    one, other = flambeau.ones(2, requires_grad=True), flambeau.ones(2, requires_grad=True)
    step(one, other)
    assert one.grad.tolist() == [2, 2]
    assert other.grad.tolist() == [7, 7]


def test_writing_in_place_to_what_hooks_watch_gives_the_right_gradients():
    seen = []
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    expected = flambeau.func.grad(lambda x: model(x).sum())(flambeau.ones(1, 2))
    for layer in model:
        layer.register_full_backward_hook(lambda layer, grads, _: seen.append(grads[0]))
    x = flambeau.ones(1, 2, requires_grad=True)
    model(x).sum().backward()
    assert flambeau.equal(x.grad, expected)
    assert flambeau.equal(seen[1], expected)
