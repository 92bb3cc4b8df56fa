"""Tensors of a trace that are kept elsewhere: constants get their values, others are refused."""

import functools
import gc
import sys

import pytest

import flambeau
from flambeau.compile import CompileError
from flambeau.compile.errors import CompileWarning
from tests.compile.following import tracers

W = flambeau.ones(3)
SHAPES = ((1, 3), (3, 3), (1, 4), (1, 3))


@functools.lru_cache
def mask(size):
    return flambeau.full((size, size), float("-inf")).triu(1)


@functools.cache
def rotary(size):
    angles = flambeau.arange(size).float()
    return {"cos": angles.cos(), "others": (angles.sin(), angles[1:3])}


class Cached:
    @functools.lru_cache  # noqa: B019 (such methods are the subject)
    def positions(self, size):
        return flambeau.arange(size).float()

    @functools.cached_property
    def scale(self):
        return flambeau.ones(1) * 3


CACHED = Cached()


def masked(x):
    return (x + mask(x.shape[-1])).softmax(-1)


def rotated(x):
    found = rotary(x.shape[-1])
    return x * found["cos"] + found["others"][0] * found["others"][1].sum()


def positioned(x):
    return x * CACHED.scale + CACHED.positions(x.shape[-1])


@pytest.fixture(autouse=True)
def nothing_is_cached():
    for each in (mask, rotary, Cached.positions, of_a_weight, drawn):
        each.cache_clear()


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("function", [masked, rotated, positioned])
def test_constants_in_a_cache_have_their_values(function, fullgraph):
    run = flambeau.compile(function, fullgraph=fullgraph)
    found = [run(flambeau.ones(*shape) * 2) for shape in SHAPES]
    # With the tensors that the traces have left.
    again = [function(flambeau.ones(*shape) * 2) for shape in SHAPES]
    for each in (mask, rotary, Cached.positions):
        each.cache_clear()
    expected = [function(flambeau.ones(*shape) * 2) for shape in SHAPES]
    for one, other, eager in zip(found, again, expected, strict=True):
        assert flambeau.allclose(one, eager)
        assert flambeau.equal(other, eager)
    assert not tracers()


@functools.lru_cache
def of_a_weight():
    return W * 2


@functools.lru_cache
def drawn():
    return flambeau.rand(3)


def weighted(x):
    return x + of_a_weight()


def noisy(x):
    return x + drawn()


def interrupted(x):
    product = x * W
    try:
        raise ValueError("caught")
    except ValueError as error:
        sys.last_error = error
    return product


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("function", [weighted, noisy])
def test_other_tensors_in_a_cache_come_from_an_eager_call(function, fullgraph):
    run = flambeau.compile(function, fullgraph=fullgraph)
    first = run(flambeau.ones(3))
    assert run.program_count == 0
    assert flambeau.equal(run(flambeau.ones(3)), first)
    assert run.program_count == 1
    assert flambeau.equal(function(flambeau.ones(3)), first)
    assert not tracers()


def test_objects_that_the_collector_ignores_are_found_too():
    """As in programs that call gc.freeze() and gc.disable() for speed."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        run = flambeau.compile(weighted, fullgraph=True)
        first = run(flambeau.ones(3))
        assert run.program_count == 0
        assert flambeau.equal(run(flambeau.ones(3)), first)
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()
    with pytest.raises(CompileError):
        flambeau.compile(interrupted, fullgraph=True)(flambeau.ones(3))
    sys.last_error = None
    assert gc.isenabled()


def test_other_tensors_are_refused():
    place = r"a variable of interrupted\(\)"
    with pytest.raises(CompileError, match=f"leaves a tensor in {place}"):
        flambeau.compile(interrupted, fullgraph=True)(flambeau.ones(3))
    sys.last_error = None
    assert not tracers()
    run = flambeau.compile(interrupted, fullgraph=False)
    with pytest.warns(CompileWarning, match=place):
        first = run(flambeau.ones(3))
    assert flambeau.equal(run(flambeau.ones(3)), first)
    assert run.program_count == 0


def test_a_trace_that_fails_empties_the_caches_that_it_has_filled():
    def function(x):
        total = masked(x)
        return total * 2 if total.sum() > 0 else total

    with pytest.raises(CompileError, match="value of a tensor"):
        flambeau.compile(function, fullgraph=True)(flambeau.ones(3, 3))
    assert mask.cache_info().currsize == 0
    run = flambeau.compile(function, fullgraph=False)
    expected = function(flambeau.ones(3, 3))
    mask.cache_clear()
    for _ in range(3):
        assert flambeau.allclose(run(flambeau.ones(3, 3)), expected)
    assert run.program_count == 1
    assert not tracers()


def test_an_error_in_a_backward_outside_keeps_no_tensors():
    def hook(grad):
        raise KeyError("of the hook")

    def function(x):
        product = x * 2
        product.register_hook(hook)
        return product.sum()

    loss = flambeau.compile(function, fullgraph=True)(flambeau.ones(2, requires_grad=True))
    assert loss.item() == 4
    assert not tracers()
    with pytest.raises(KeyError, match="of the hook"):
        loss.backward()


class _Reversible(flambeau.autograd.Function):
    """Adds a layer of one half to the other; backward computes it again from the result."""

    @staticmethod
    def forward(ctx, x, layer):
        with flambeau.no_grad():
            first, second = x.chunk(2, -1)
            result = flambeau.cat([first + layer(second), second], -1)
        # Not by `save_for_backward`, which would let go of it.
        ctx.layer, ctx.kept = layer, result.detach()
        return result

    @staticmethod
    def backward(ctx, cotangent):
        _, second = ctx.kept.chunk(2, -1)
        first, other = cotangent.chunk(2, -1)
        with flambeau.enable_grad():
            second.requires_grad = True
            flambeau.autograd.backward(ctx.layer(second), first)
        result = flambeau.cat([first, other + second.grad], -1)
        second.grad = None
        return result, None


def test_the_gradient_of_a_temporary_may_be_reset():
    layer = flambeau.nn.Linear(2, 2)
    x = flambeau.tensor([[1.0, 2.0, 3.0, 4.0]], requires_grad=True)

    def step(x):
        loss = _Reversible.apply(x, layer).square().sum()
        loss.backward()
        return loss

    compiled = flambeau.compile(step, fullgraph=True)
    found = []
    for run in (step, compiled, compiled):
        x.grad = layer.weight.grad = layer.bias.grad = None
        found.append([run(x).item(), *x.grad.flatten().tolist(), *layer.weight.grad[0].tolist()])
    assert found[1] == pytest.approx(found[0])
    assert found[2] == pytest.approx(found[0])
    assert compiled.program_count == 1
    assert not tracers()
