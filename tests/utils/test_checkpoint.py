"""Checkpointed functions give the same gradients, and save nothing but their arguments."""

import contextlib
import gc
import weakref

import pytest

import flambeau
from flambeau import nn
from flambeau.utils import device_states
from flambeau.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential
from flambeau.utils.device_states import get_device_states, set_device_states

X = flambeau.linspace(-1.0, 1.0, 6).reshape(2, 3)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(3, 3), nn.Dropout(0.5), nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x, scale=1.0):
        self.calls += 1
        return self.last(self.drop(self.first(x).tanh()).exp()) * scale


@pytest.fixture
def block():
    flambeau.manual_seed(0)
    return Block()


def gradients(block, run):
    """The gradients of the input and the parameters, after the same random numbers."""
    block.zero_grad()
    flambeau.manual_seed(1)
    x = X.clone().requires_grad_()
    result = run(x)
    following = flambeau.rand(())
    result.square().sum().backward()
    assert flambeau.rand(()) != following
    return [each.grad.tolist() for each in (x, *block.parameters())]


@pytest.mark.parametrize("use_reentrant", [None, True, False])
def test_gradients_are_those_without_it(block, use_reentrant):
    expected = gradients(block, lambda x: block(x, scale=2.0))
    found = gradients(block, lambda x: checkpoint(block, x, use_reentrant=use_reentrant, scale=2.0))
    assert found == expected
    assert block.calls == 3


def test_parameters_get_gradients_though_no_argument_requires_them(block):
    checkpoint(block, X, use_reentrant=False).sum().backward()
    assert block.first.weight.grad is not None


def test_each_backward_runs_the_function_once_more(block):
    result = checkpoint(block, X, use_reentrant=False).sum()
    result.backward(retain_graph=True)
    assert block.calls == 2
    result.backward()
    assert block.calls == 3


def test_autograd_grad_and_second_derivatives():
    x = flambeau.tensor([0.5], requires_grad=True)
    y = checkpoint(lambda x: (x * x).sin() * x, x, use_reentrant=False)
    (slope,) = flambeau.autograd.grad(y, x, create_graph=True)
    (curvature,) = flambeau.autograd.grad(slope, x)
    square = flambeau.tensor(0.25)
    expected = 6 * 0.5 * square.cos() - 4 * 0.125 * square.sin()
    assert curvature.item() == pytest.approx(expected.item(), rel=1e-5)


def test_what_lies_between_is_not_kept():
    kept = []

    def function(x):
        between = x.exp()
        kept.append(weakref.ref(between._cell.array))
        return between.sin()

    x = X.clone().requires_grad_()
    plain = function(x)
    checkpointed = checkpoint(function, x, use_reentrant=False)
    gc.collect()
    assert kept[0]() is not None
    assert kept[1]() is None
    checkpointed.sum().backward()
    plain.sum().backward()


def test_other_random_numbers_where_the_state_is_not_kept():
    x = flambeau.ones(64, requires_grad=True)
    same, other = [], []
    for seen, preserve in ((same, True), (other, False)):
        flambeau.manual_seed(0)

        def function(x, seen=seen):
            seen.append(flambeau.rand(64))
            return (x * seen[-1]).exp()

        checkpoint(function, x, use_reentrant=False, preserve_rng_state=preserve).sum().backward()
    assert flambeau.equal(*same)
    assert not flambeau.equal(*other)


def test_contexts_stand_around_both_runs():
    entered = []

    @contextlib.contextmanager
    def context(name):
        entered.append(name)
        yield

    x = X.clone().requires_grad_()
    contexts = context("first"), context("again")
    y = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False, context_fn=lambda: contexts)
    assert entered == ["first"]
    y.sum().backward()
    assert entered == ["first", "again"]


def test_without_gradients_the_function_is_only_called(block):
    with flambeau.no_grad():
        assert not checkpoint(block, X, use_reentrant=False).requires_grad


def test_one_inside_another(block):
    expected = gradients(block, lambda x: block(block(x)))

    def inner(x):
        return checkpoint(block, x, use_reentrant=False)

    assert gradients(block, lambda x: checkpoint(lambda x: inner(inner(x)), x)) == expected


def test_compiled_steps_call_the_function():
    layer = nn.Linear(3, 3)

    def step():
        layer.zero_grad()
        loss = checkpoint(lambda x: layer(x).tanh(), X, use_reentrant=False).sum()
        loss.backward()
        return loss

    expected, gradient = step().item(), layer.weight.grad
    assert flambeau.compile(step)().item() == pytest.approx(expected)
    assert flambeau.allclose(layer.weight.grad, gradient)


@pytest.mark.parametrize("segments", [1, 2, 3])
def test_a_sequential_module_in_segments(block, segments):
    model = nn.Sequential(block.first, nn.Tanh(), block.last)
    for functions in (model, list(model)):
        assert gradients(
            block, lambda x, f=functions: checkpoint_sequential(f, segments, x)
        ) == gradients(block, model)


@pytest.mark.parametrize("segments", [0, 4])
def test_segments_must_fit(segments):
    with pytest.raises(ValueError, match=f"2 functions into {segments} segments"):
        checkpoint_sequential([nn.Tanh(), nn.Tanh()], segments, X)


def test_another_number_of_saved_tensors_is_an_error():
    x, runs = X.clone().requires_grad_(), []

    def function(x):
        runs.append(1)
        return (x * x).exp() if len(runs) == 1 else x * 2

    with pytest.raises(CheckpointError, match=r"3 tensors .* again"):
        checkpoint(function, x, use_reentrant=False).sum().backward()


def test_another_shape_is_an_error():
    x, runs = X.clone().requires_grad_(), []

    def function(x):
        runs.append(1)
        return x.exp().sum() if len(runs) == 1 else x[0].exp().sum()

    with pytest.raises(CheckpointError, match=r"\[2, 3\].*\[3\]"):
        checkpoint(function, x, use_reentrant=False).backward()


def test_it_runs_again_in_the_precision_of_the_first_run():
    layer, x = flambeau.nn.Linear(3, 3), flambeau.ones(2, 3)

    def product(x):
        return layer(flambeau.nn.functional.silu(layer(x)))

    with flambeau.autocast("cpu"):
        result = checkpoint(product, x, use_reentrant=False)
    assert result.dtype is flambeau.bfloat16
    result.float().sum().backward()
    found, layer.weight.grad = layer.weight.grad, None
    with flambeau.autocast("cpu"):
        result = product(x)
    result.float().sum().backward()
    assert flambeau.equal(found, layer.weight.grad)
    assert not flambeau.is_autocast_enabled("cpu")


def test_arguments_may_be_written_to_in_between():
    x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    given = x * 1
    y = checkpoint(lambda each: each.exp().sin(), given, use_reentrant=False)
    with flambeau.no_grad():
        given.mul_(2)
    y.sum().backward()
    expected = x.detach().exp().cos() * x.detach().exp()
    flambeau.testing.assert_close(x.grad, expected)


def test_an_argument_inside_another_checkpoint_is_not_kept():
    kept = []

    def outer(x):
        middle = x.cos()
        kept.append(weakref.ref(middle))
        return checkpoint(lambda each: each.exp().sin(), middle, use_reentrant=False)

    x = flambeau.ones(3, requires_grad=True)
    y = checkpoint(outer, x, use_reentrant=False)
    gc.collect()
    assert kept[0]() is None
    y.sum().backward()
    inner = x.detach().cos().exp()
    flambeau.testing.assert_close(x.grad, -inner.cos() * inner * x.detach().sin())


def test_code_that_catches_exceptions_does_not_catch_the_end_of_the_second_run():
    caught = []

    def function(x):
        try:
            return x.sin().cos()
        except Exception as error:
            caught.append(error)
            raise

    x = flambeau.ones(3, requires_grad=True)
    checkpoint(function, x, use_reentrant=False).sum().backward()
    assert x.grad is not None
    assert not caught


def test_states_of_accelerators_are_those_of_the_tensors_devices(monkeypatch):
    assert get_device_states(flambeau.ones(2), {"x": [flambeau.ones(1, device="meta")]}) == ([], [])
    set_device_states([], [])
    generator = flambeau.Generator()
    asked = []
    monkeypatch.setattr(
        device_states, "generator_for", lambda place: asked.append(str(place)) or generator
    )
    state = generator.get_state()
    first = flambeau.rand(3, generator=generator)
    set_device_states([1], [state], device_type="cuda")
    assert flambeau.rand(3, generator=generator).equal(first)
    assert asked == ["cuda:1"]
