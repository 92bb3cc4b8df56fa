"""Optimizers' steps and clipping by native kernels compute what XLA's operators compute."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.core.devices.native import native_kernels
from flambeau.ops.native import many as native
from flambeau.ops.reductions.many import clipped_to_norm

pytestmark = pytest.mark.skipif(
    not {"flambeau_adam", "flambeau_clip", "flambeau_sgd"} <= {*native_kernels()},
    reason="the native kernels are not installed; `make kernels` builds them",
)

SHAPES = [(3, 5), (), (37,), (0,), (130, 140), (2, 1)]


def _train(make, shapes=SHAPES, steps=3, compiled=False):
    """What some steps leave: parameters, state, and the norms of the gradients."""
    rng = np.random.default_rng(0)
    params = [
        nn.Parameter(flambeau.from_numpy(np.asarray(rng.standard_normal(shape, dtype=np.float32))))
        for shape in shapes
    ]
    optimizer = make(params)
    norms = []

    def step():
        sum(((each - 1) ** 2).sum() for each in params).backward()
        norm = nn.utils.clip_grad_norm_(params, 3.0)
        optimizer.step()
        optimizer.zero_grad()
        return norm

    step = flambeau.compile(step) if compiled else step
    norms = [step() for _ in range(steps)]
    state = optimizer.state_dict()["state"]
    kept = [each for i in sorted(state) for _, each in sorted(state[i].items())]
    return [each.detach().numpy() for each in (*params, *kept, *norms)]


def _without(monkeypatch, run):
    with monkeypatch.context() as patch:
        patch.setattr(native, "takes", lambda *_: False)
        return run()


def _close(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, 2e-6, 2e-6)


OPTIMIZERS = {
    "adam": lambda p: optim.Adam(p, lr=0.1),
    "adam with decay": lambda p: optim.Adam(p, lr=0.1, weight_decay=0.2, betas=(0.5, 0.75)),
    "adam upwards": lambda p: optim.Adam(p, lr=0.1, maximize=True, eps=0.5),
    "adamw": lambda p: optim.AdamW(p, lr=0.1),
    "groups": lambda p: optim.AdamW([{"params": p[:2]}, {"params": p[2:], "lr": 0.5}], lr=0.1),
    "lr as a tensor": lambda p: optim.Adam(p, lr=flambeau.tensor(0.1)),
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "sgd with decay": lambda p: optim.SGD(p, lr=0.1, weight_decay=0.2, maximize=True),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.5),
    "nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.5, nesterov=True, weight_decay=0.2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(monkeypatch, name):
    calls = []
    update = native.update
    monkeypatch.setattr(native, "update", lambda *a, **k: calls.append(a[0]) or update(*a, **k))
    found = _train(OPTIMIZERS[name])
    assert calls
    _close(found, _without(monkeypatch, lambda: _train(OPTIMIZERS[name])))


@pytest.mark.parametrize("name", ["adamw", "nesterov"])
def test_compiled_steps(monkeypatch, name):
    found = _train(OPTIMIZERS[name], compiled=True)
    _close(found, _without(monkeypatch, lambda: _train(OPTIMIZERS[name])))


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.Adam(p, amsgrad=True),
        lambda p: optim.SGD(p, momentum=0.5, dampening=0.5),
        lambda p: optim.RMSprop(p),
    ],
)
def test_others_are_left_to_xla(monkeypatch, make):
    monkeypatch.setattr(native, "update", lambda *_, **__: pytest.fail("a kernel was called"))
    _train(make, [(3, 5)], steps=1)


def test_parameters_of_several_precisions(monkeypatch):
    def run():
        params = [nn.Parameter(flambeau.ones(3, 5, dtype=dtype))
                  for dtype in (flambeau.float32, flambeau.bfloat16, flambeau.float64)]  # fmt: skip
        optimizer = optim.AdamW(params, lr=0.1)
        for each in params:
            each.grad = flambeau.full_like(each, 0.5)
        optimizer.step()
        return [each.detach().double().numpy() for each in params]

    found = run()
    for ours, theirs in zip(found, _without(monkeypatch, run), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-6)


def test_calls_take_a_bounded_number_of_parameters():
    # XLA's time to compile a call grows with the cube of its arrays.
    params = [nn.Parameter(flambeau.ones(3)) for _ in range(100)]
    optimizer = optim.SGD(params, lr=0.5)
    for each in params:
        each.grad = flambeau.ones(3)
    text = flambeau.compiler.lower(flambeau.compile(optimizer.step)).as_text()
    assert text.count("@flambeau_sgd") == 7
    optimizer.step()
    assert all(each.tolist() == [0.5] * 3 for each in params)


def test_an_optimizer_with_its_own_rule_is_stepped_by_it():
    class Still(optim.AdamW):
        @classmethod
        def rule(cls, param, grad, state, hyper, flags):
            return param, state

    weight = nn.Parameter(flambeau.ones(3))
    optimizer = Still([weight])
    weight.grad = flambeau.ones(3)
    optimizer.step()
    assert weight.tolist() == [1, 1, 1]


def test_a_step_leaves_arrays_that_others_hold():
    weight = nn.Parameter(flambeau.ones(3, 5))
    optimizer = optim.Adam([weight], lr=0.1)
    weight.grad = flambeau.ones(3, 5)
    optimizer.step()
    held = [weight.jax(), optimizer.state[weight]["exp_avg"].jax()]
    before = [np.array(each) for each in held]
    optimizer.step()
    for one, two in zip(held, before, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(weight.jax(), before[0])


def test_gradients_through_a_differentiable_step(monkeypatch):
    def run():
        start = flambeau.ones(3, requires_grad=True)
        weight = start * 2
        optimizer = optim.Adam([weight], lr=0.1, differentiable=True)
        weight.grad = flambeau.tensor([0.5, -1.0, 2.0], requires_grad=True)
        optimizer.step()
        (weight**2).sum().backward()
        return [start.grad.numpy()]

    _close(run(), _without(monkeypatch, run))


@pytest.mark.parametrize("limit", [0.5, 100.0, np.inf])
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30, 0.0])
def test_norms_that_are_no_numbers_and_infinite_ones(monkeypatch, value, limit):
    arrays = np.ones((3, 5), np.float32), np.full(4, value, np.float32)

    def run():
        return jax.jit(lambda *given: clipped_to_norm.op.function(given, limit, 2.0))(*arrays)

    for ours, theirs in zip(run(), _without(monkeypatch, run), strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-6)


def test_batches_of_clipping(monkeypatch):
    arrays = [np.arange(24, dtype=np.float32).reshape(4, 2, 3), np.ones((4, 5), np.float32)]

    def run():
        clip = jax.vmap(lambda *a: clipped_to_norm.op.function(a, 2.0, 2.0))
        return [np.asarray(each) for each in clip(*map(jnp.asarray, arrays))]

    _close(run(), _without(monkeypatch, run))


def test_a_bad_call_is_an_error():
    kernel = jax.ffi.ffi_call("flambeau_adam", [jax.ShapeDtypeStruct((3,), np.float32)] * 4)
    numbers, three, one = np.zeros(5), np.ones(3, np.float32), np.ones(1, np.float32)
    flags = {"decoupled": np.True_, "maximize": np.False_}
    with jax.enable_x64(True):
        with pytest.raises(jax.errors.JaxRuntimeError, match="elements instead of"):
            jax.block_until_ready(kernel(numbers, three, one, one, three, three, **flags))
        with pytest.raises(jax.errors.JaxRuntimeError, match="takes 5 arrays for each parameter"):
            jax.block_until_ready(kernel(numbers, three, three, **flags))
        with pytest.raises(jax.errors.JaxRuntimeError, match="takes 5 numbers"):
            args = three, three, one, three, three
            jax.block_until_ready(kernel(np.zeros(2), *args, **flags))
