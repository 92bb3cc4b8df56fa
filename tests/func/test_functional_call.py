"""Modules as functions, here and under JAX's own transformations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import flambeau
from flambeau import nn
from flambeau.func import functional_call, stack_module_state


class Counting(nn.Module):
    """A module that counts its calls in a buffer, and hides part of its work from gradients."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("calls", flambeau.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        y = self.linear(x)
        with flambeau.no_grad():
            hidden = y * 2
        return y * hidden + y.detach() + x.sum() * 0


def arrays_of(module):
    named = (*module.named_parameters(), *module.named_buffers())
    return {name: each.jax() for name, each in named}


def inputs():
    return jnp.asarray([[1.0, 2.0], [3.0, 4.0]], "float32")


def test_arrays_in_arrays_out():
    module = nn.Linear(2, 2)
    found = functional_call(module, arrays_of(module), inputs())
    assert isinstance(found, jax.Array)
    assert found.tolist() == module(flambeau.from_jax(inputs())).tolist()


def test_tensors_in_tensors_out():
    module = nn.Linear(2, 2)
    found = functional_call(module, {}, flambeau.from_jax(inputs()))
    assert isinstance(found, flambeau.Tensor)


def test_nested_results_come_as_arrays_too():
    class Several(nn.Module):
        def forward(self, x, *, scale):
            return {"a": (x, x * scale), "b": 3}

    found = functional_call(Several(), {}, inputs(), {"scale": inputs()})
    assert isinstance(found["a"][1], jax.Array)
    assert found["b"] == 3


def test_a_module_inside_jit_grad_and_vmap():
    module = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    params = arrays_of(module)

    def loss(params, x):
        return functional_call(module, params, x).sum()

    by_jax = jax.jit(jax.grad(loss))(params, inputs())
    module(flambeau.from_jax(inputs())).sum().backward()
    for name, each in module.named_parameters():
        assert jnp.allclose(by_jax[name], each.grad.jax(), atol=1e-6)
    rows = jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, inputs())
    assert jnp.allclose(rows["0.weight"].sum(0), by_jax["0.weight"], atol=1e-6)


def test_no_grad_and_detach_hold_under_jax():
    module = Counting()
    params = arrays_of(module)
    by_jax = jax.grad(lambda p: functional_call(module, p, inputs()).sum())(params)
    module(flambeau.from_jax(inputs())).sum().backward()
    assert jnp.allclose(by_jax["linear.weight"], module.linear.weight.grad.jax(), atol=1e-5)


def test_no_grad_outside_does_not_stop_jax():
    module = nn.Linear(2, 1)
    with flambeau.no_grad():
        found = jax.grad(lambda p: functional_call(module, p, inputs()).sum())(arrays_of(module))
    assert found["weight"].tolist() == [[4.0, 6.0]]


def test_nothing_is_recorded_under_jax():
    module = nn.Linear(2, 1)
    seen = []
    module.register_forward_hook(lambda module, args, output: seen.append(output.requires_grad))
    jax.jit(lambda x: functional_call(module, {}, x))(inputs())
    assert seen == [False]


def test_a_buffer_that_is_not_given_cannot_be_written_under_jax():
    module = Counting()
    with pytest.raises(RuntimeError, match=r"outside.*argument"):
        jax.jit(lambda x: functional_call(module, {}, x))(inputs())
    assert module.calls.item() == 0


def test_a_buffer_that_is_given_is_written_for_the_time_of_the_call():
    module = Counting()

    @jax.jit
    def call(state, x):
        values = jax.tree.map(flambeau.from_jax, state)
        result = functional_call(module, values, flambeau.from_jax(x))
        return result.jax(), values["calls"].jax()

    _, calls = call(arrays_of(module), inputs())
    assert calls == 1.0
    assert module.calls.item() == 0


def test_the_module_is_as_before_after_an_error():
    module = nn.Linear(2, 1)
    weight = module.weight
    with pytest.raises(RuntimeError):
        functional_call(module, {"weight": flambeau.ones(1, 3)}, flambeau.ones(2))
    assert module.weight is weight
    assert list(module._parameters) == ["weight", "bias"]


def test_an_unknown_submodule_leaves_the_module_as_before():
    module = nn.Sequential(nn.Linear(2, 1))
    weight = module[0].weight
    with pytest.raises(AttributeError, match="9"):
        functional_call(module, {"0.weight": flambeau.ones(1, 2), "9.weight": weight}, ())
    assert module[0].weight is weight


def test_compiled_programs_stay_valid():
    module = nn.Linear(2, 1)
    traces = []

    def call(x):
        traces.append(None)
        return module(x)

    compiled = flambeau.compile(call)
    x = flambeau.ones(2)
    compiled(x)
    functional_call(module, {"weight": flambeau.zeros(1, 2)}, x)
    compiled(x)
    assert len(traces) == 1


def test_a_compiled_functional_call_leaves_the_module_as_it_was():
    module = Counting()
    given = {"linear.weight": flambeau.ones(2, 2), "calls": flambeau.zeros(())}
    compiled = flambeau.compile(lambda given, x: functional_call(module, given, x))
    x = flambeau.from_jax(inputs())
    for _ in range(2):
        found = compiled(given, x)
    assert isinstance(module.linear.weight, nn.Parameter)
    assert given["calls"].item() == 2
    assert module.calls.item() == 0
    expected = functional_call(module, {**given, "calls": flambeau.zeros(())}, x)
    assert flambeau.allclose(found, expected)


def test_stacked_parameters_share_no_elements_with_the_models():
    models = [nn.Linear(2, 1) for _ in range(2)]
    params, buffers = stack_module_state(models)
    with flambeau.no_grad():
        params["weight"].zero_()
    assert models[0].weight.abs().sum() > 0
    assert buffers == {}


def test_the_parameter_that_is_frozen_in_some_models_is_named():
    models = [nn.Linear(2, 1), nn.Linear(2, 1)]
    models[1].bias.requires_grad_(False)
    with pytest.raises(RuntimeError, match="'bias'"):
        stack_module_state(models)
