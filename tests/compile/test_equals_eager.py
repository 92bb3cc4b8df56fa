"""Compiled equals eager: for any chain of operators, writes and views, and for whole functions.

What is compared is everything that a caller can see afterwards: results and whether they are the
tensors that went in, gradients, parameters, buffers, the optimizer's state. A value is read by
`numpy()`, which fails for a tracer that was left behind.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flambeau
from flambeau import nn, optim
from flambeau.nn import functional as F
from flambeau.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

RANDOM = np.random.default_rng(0)
X, Y = (RANDOM.standard_normal((3, 3)).astype(np.float32) for _ in range(2))
IMAGES = RANDOM.standard_normal((4, 1, 4, 4)).astype(np.float32)
LABELS = np.array([0, 2, 1, 1])


def visible(value, seen=None):
    """What a caller sees: arrays for tensors and modules, and which tensors are the same one."""
    seen = {} if seen is None else seen
    if isinstance(value, flambeau.Tensor):
        grad = None if value.grad is None else value.grad.numpy()
        number = seen.setdefault(id(value), len(seen))
        return number, value.detach().numpy(), grad, str(value.dtype)
    if isinstance(value, nn.Module):
        return [visible(each, seen) for each in (*value.parameters(), *value.buffers())]
    if isinstance(value, optim.Optimizer):
        return visible(value.state_dict(), seen)
    if isinstance(value, dict):
        return {key: visible(value[key], seen) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [type(value).__name__, *(visible(each, seen) for each in value)]
    return value


def assert_same(found, expected, rtol=1e-4):
    if isinstance(expected, np.ndarray):
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-5)
    elif isinstance(expected, dict):
        assert set(found) == set(expected)
        for key in expected:
            assert_same(found[key], expected[key], rtol)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, rtol)
    else:
        assert found == expected


# Chains of operators


def overwrite_row(x):
    y = x.clone()
    y[0].mul_(2).add_(y[1])
    return y


def overwrite_column(x):
    y = x * 1
    y[:, 1] = y[:, 0] + 1
    return y


STEPS = {
    "tanh": lambda x: x.tanh(),
    "scale": lambda x: x * 1.5 - 0.25,
    "transpose": lambda x: x.t(),
    "roll": lambda x: x.roll(1, 0),
    "normalize": lambda x: x / (1 + x.norm()),
    "softmax": lambda x: x.softmax(-1),
    "where": lambda x: flambeau.where(x > 0.1, x, 0.5 * x),
    "row": overwrite_row,
    "column": overwrite_column,
    "cumsum": lambda x: x.cumsum(0),
    "matmul": lambda x: x @ x.t(),
    "detach": lambda x: x * x.detach(),
    "clamp": lambda x: x.clamp(-1, 1),
    "gather": lambda x: x.gather(1, flambeau.tensor([[0, 0, 2], [1, 2, 0], [2, 2, 1]])),
}


@settings(max_examples=8)
@given(
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4), seed=st.integers(0, 9)
)
def test_any_chain_gives_the_eager_value_and_gradient(names, seed):
    def differentiated(x):
        y = x
        for name in names:
            y = STEPS[name](y)
        y.square().sum().backward()
        return y.detach()

    values = np.random.default_rng(seed).standard_normal((3, 3)).astype(np.float32)
    eager, compiled = (flambeau.tensor(values, requires_grad=True) for _ in range(2))
    expected = differentiated(eager)
    found = flambeau.compile(differentiated)(compiled)
    assert_same(visible([found, compiled]), visible([expected, eager]))


# Whole functions: each builds its world, and gives a function, its arguments, and what it changes.


def writes_through_views():
    table, x = flambeau.tensor(X), flambeau.tensor(Y)

    def function(x):
        first = table[0]
        first.mul_(x[1])
        table[:, 1:].add_(first[0])
        table.t()[2].copy_(x[0])
        x.view(-1)[4:].zero_()
        return first * 1, table.diagonal() + 0

    return function, (x,), [table, x]


def writes_with_a_history():
    w = flambeau.tensor(X, requires_grad=True)

    def function(x):
        y = w * x
        y[0].mul_(y[1])
        part = y[:, 1]
        part.exp_()
        z = flambeau.zeros(3, 3)
        z[1:] = y[1:]
        (z.square().sum() + y.sum()).backward()
        return y.detach(), z.detach()

    return function, (flambeau.tensor(Y),), w


def nested_arguments_and_results():
    Pair = namedtuple("Pair", "left right")
    a, b = flambeau.tensor(X), flambeau.tensor(Y)

    def function(pair, *rest, options):
        total = pair.left + options["scale"][0] * pair.right
        for each in rest:
            total = total + each
        return {
            "pair": Pair(total, pair.left),
            "list": [total.sin(), (None, "text", 3)],
            "ordered": OrderedDict(one=total > 0, two=total.long()),
        }

    return lambda: function(Pair(a, b), a, options={"scale": [b]}), (), [a, b]


def arguments_in_containers():
    a, b = flambeau.tensor(X), flambeau.tensor(Y)

    def function(tensors, by_name):
        tensors[0].add_(by_name["b"])
        return [by_name, tensors]

    return function, ([a, (b,)], {"b": b, "again": a}), [a, b]


def aliases():
    w, x = flambeau.tensor(X, requires_grad=True), flambeau.tensor(Y)

    def function(x):
        x.add_(1)
        return w, x, x * 2, [x, (w,)]

    return function, (x,), [w, x]


def custom_function():
    class Clipped(flambeau.autograd.Function):
        @staticmethod
        def forward(ctx, x, limit):
            ctx.save_for_backward(x)
            ctx.limit = limit
            return x.clamp(-limit, limit)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * flambeau.where(x.abs() > ctx.limit, 0.25, 1.0), None

    w = flambeau.tensor(X, requires_grad=True)

    def function(x):
        loss = (Clipped.apply(w * x, 0.3) * w).sum()
        loss.backward()
        return loss.detach()

    return function, (flambeau.tensor(Y),), w


def accumulated_gradients():
    w = flambeau.tensor(X, requires_grad=True)

    def function(x):
        for part in x:
            (w * part).exp().sum().backward()
        return w.grad * 2

    return function, (flambeau.tensor(Y),), w


def gradient_penalty():
    w, x = flambeau.tensor(X, requires_grad=True), flambeau.tensor(Y, requires_grad=True)

    def function(x):
        value = (x @ w).tanh().square().sum()
        (slope,) = flambeau.autograd.grad(value, x, create_graph=True)
        loss = value + (slope.norm() - 1) ** 2
        loss.backward()
        # The second call must see the new values in the first gradient, too.
        with flambeau.no_grad():
            w.sub_(0.01 * w.grad)
        return loss.detach(), slope.detach()

    return function, (x,), [w, x]


def gradients_of_gradients():
    w, x = flambeau.tensor(X), flambeau.tensor(Y)
    inner = flambeau.func.grad(lambda w, x: (x @ w).tanh().square().sum())
    outer = flambeau.func.grad(lambda w, x: inner(w, x).square().sum())

    def function(x):
        w.sub_(0.01 * outer(w, x))

    return function, (x,), w


def cotangent_that_changes():
    w, cotangent = flambeau.tensor(X, requires_grad=True), flambeau.tensor(Y)

    def function():
        y = w * w
        y.register_hook(lambda grad: grad * 2)
        y.backward(cotangent)
        cotangent.mul_(w.detach())

    return function, (), [w, cotangent]


def retained_gradients():
    w = flambeau.tensor(X, requires_grad=True)

    def function(x):
        y = w * x
        y.retain_grad()
        z = y.sin()
        z.sum().backward(retain_graph=True)
        first = y.grad.clone()
        z.square().sum().backward()
        return first, y.grad * 1

    return function, (flambeau.tensor(Y),), w


def modes():
    w = flambeau.tensor(X, requires_grad=True)

    @flambeau.no_grad()
    def function(x):
        fixed = w * x
        with flambeau.enable_grad():
            loss = (w * fixed).sum()
            loss.backward()
        w.sub_(0.1 * w.grad)
        return fixed.requires_grad, loss.detach()

    return function, (flambeau.tensor(Y),), w


def fixed_randomness():
    layer = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5))

    def function(x):
        with flambeau.random.key_scope(jax.random.key(3)):
            loss = layer(x).square().mean()
        loss.backward()
        return loss.detach()

    return function, (flambeau.tensor(X),), layer


def buffers_of_layers():
    net = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)),
        nn.BatchNorm1d(4),
        nn.BatchNorm1d(4, momentum=None),
    )

    def function(x):
        loss = net(x).exp().mean() + net[:2](x).square().sum()
        loss.backward()
        return loss.detach()

    return function, (flambeau.tensor(X),), net


def recurrent_and_embedded():
    words, net = nn.Embedding(5, 4, padding_idx=0), nn.LSTM(4, 3)

    def function(index):
        found, (h, c) = net(words(index))
        mixed = F.scaled_dot_product_attention(found, found, found, is_causal=True)
        (mixed.square().sum() + c.sum()).backward()
        return mixed.detach(), h.detach()

    return function, (flambeau.tensor([[0, 2], [4, 1], [3, 3]]),), [words, net]


def hooked():
    layer, calls = nn.Linear(3, 3), flambeau.zeros(())
    layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    layer.register_forward_hook(lambda module, args, output: output + calls.add_(1))
    layer.register_full_backward_hook(lambda module, gi, go: (gi[0] * 3,))
    layer.weight.register_hook(lambda grad: grad.clamp(-1, 1))
    x = flambeau.tensor(X, requires_grad=True)

    def function(x):
        layer(x).square().sum().backward()

    return function, (x,), [layer, calls, x]


WORLDS = [
    writes_through_views, writes_with_a_history, nested_arguments_and_results,
    arguments_in_containers, aliases, custom_function, accumulated_gradients, gradient_penalty,
    gradients_of_gradients, cotangent_that_changes, retained_gradients, modes,
    fixed_randomness, buffers_of_layers, recurrent_and_embedded, hooked,
]  # fmt: skip


@pytest.mark.parametrize("world", WORLDS, ids=lambda each: each.__name__)
def test_a_function_does_what_it_does_eagerly(world):
    outcomes = []
    for turn in (lambda function: function, flambeau.compile):
        flambeau.manual_seed(0)
        function, arguments, changed = world()
        function = turn(function)
        # The second call finds gradients, buffers and tensors as the first one left them.
        outcomes.append([visible([function(*arguments), changed]) for _ in range(2)])
    assert function.program_count <= 2
    assert_same(outcomes[1], outcomes[0])


# Courses of training


def plain(net):
    return optim.SGD(net.parameters(), lr=0.1)


def momentum(net):
    groups = [{"params": net[:4].parameters(), "lr": 0.02}, {"params": net[4].parameters()}]
    return optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01)


def adam(net):
    return optim.Adam(net.parameters(), lr=0.05, amsgrad=True)


def adamw(net):
    return optim.AdamW(net.parameters(), lr=flambeau.tensor(0.05))


@pytest.mark.parametrize("make", [plain, momentum, adam, adamw], ids=lambda each: each.__name__)
def test_a_course_of_training_is_the_eager_one(make):
    images, labels = flambeau.tensor(IMAGES), flambeau.tensor(LABELS)

    def course(turn):
        flambeau.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(1, 2, 3, bias=False), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(),
            nn.Linear(8, 3),
        )  # fmt: skip
        optimizer = make(net)
        scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
        average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.8), use_buffers=True)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            total = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            average.update_parameters(net)
            return loss.detach(), total

        step, seen = turn(step), []
        for _ in range(3):
            seen.append(visible(step(images, labels)))
            scheduler.step()
        net.eval()
        with flambeau.no_grad():
            evaluated = turn(net)(images)
        assert turn is not flambeau.compile or step.program_count == 1
        return [*seen, *map(visible, (evaluated, net, average, optimizer, scheduler.state_dict()))]

    assert_same(course(flambeau.compile), course(lambda function: function), rtol=2e-3)


# Random numbers, which are not the eager ones but repeat as those do


def test_random_numbers_repeat_and_leave_the_same_state():
    layer = nn.Dropout(0.5)
    draw = flambeau.compile(lambda x: layer(x) + flambeau.randn(64))
    x = flambeau.ones(64)

    def course():
        return [draw(x).tolist() for _ in range(2)], flambeau.get_rng_state().tolist()

    flambeau.manual_seed(7)
    first = course()
    flambeau.manual_seed(7)
    assert course() == first
    assert first[0][0] != first[0][1]
    saved = flambeau.get_rng_state()
    following = draw(x).tolist()
    flambeau.set_rng_state(saved)
    assert draw(x).tolist() == following


def test_eager_draws_are_not_moved_by_compiled_ones():
    draw = flambeau.compile(lambda: flambeau.rand(3))
    flambeau.manual_seed(7)
    expected = flambeau.rand(3).tolist()
    flambeau.manual_seed(7)
    draw()
    assert flambeau.rand(3).tolist() == expected
