"""Long chains of elementwise operations, which programs for CPUs do not compute more than once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau import nn
from flambeau.core.devices.compiler import cpu_forms, options_with_barriers
from flambeau.core.programs.compiled import compiled, jitted
from flambeau.core.programs.cutting import compiled_with_barriers, evaluated

pytestmark = pytest.mark.skipif(not cpu_forms(), reason="chains are cut on one CPU only")

X = np.linspace(-1, 1, 6, dtype=np.float32)


def barriers(function, *arguments):
    """The number of barriers in a function as it is evaluated, and that the values are the same."""
    traced = jax.make_jaxpr(function)(*arguments)

    def run(*given):
        return evaluated(traced.jaxpr, traced.consts, *given)

    for one, other in zip(run(*arguments), jax.tree.leaves(function(*arguments)), strict=True):
        np.testing.assert_array_equal(one, other)
    return sum(
        each.primitive.name == "optimization_barrier"
        for each in jax.make_jaxpr(run)(*arguments).eqns
    )


def recurrence(steps, between=lambda x: x):
    def run(x):
        found = []
        for _ in range(steps):
            x = jax.jit(lambda x: jnp.tanh(x) * 0.5 + x)(between(x))
            found.append(jnp.sin(x))
        return found

    return run


def test_a_value_at_the_end_of_a_long_chain_is_computed_once():
    assert barriers(recurrence(4), X) == 0
    # Three operations a step, and one more for each of 64.
    assert barriers(recurrence(100), X) == 300 // 65


def test_a_value_that_is_used_once_ends_no_chain():
    def run(x):
        for _ in range(200):
            x = x * 0.5
        return x

    assert barriers(run, X) == 0


def test_parts_of_a_value_are_operations_of_their_own():
    def run(x):
        found = []
        for _ in range(60):
            x, part = jax.jit(lambda x: jnp.split(jnp.tanh(x) * 0.5, [len(x) - 1]))(x)
            found.append(part)
        return found

    assert barriers(run, np.linspace(-1, 1, 80, dtype=np.float32)) > 0


def test_values_that_a_called_function_uses_more_than_once_are_used_more_than_once():
    def run(x):
        for _ in range(70):
            x = x * 0.5
        return jax.jit(lambda x: (x + 1, x * 2))(x)

    assert barriers(run, X) == 1


def test_products_end_chains():
    weight = np.eye(6, dtype=np.float32)
    assert barriers(recurrence(100, between=lambda x: x @ weight), X) == 0


def test_numbers_and_constants_of_a_jaxpr():
    table = jnp.arange(6.0)

    def run(x, number):
        chain = x
        for _ in range(70):
            chain = chain * number + table
        return chain * 2, chain + 1

    # The chain is an operand of two results.
    assert barriers(run, X, 0.5) == 1


def compiled_size(steps):
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.decay = nn.Parameter(flambeau.ones(16))

        def forward(self, x):
            memory, found = flambeau.zeros(16), []
            for row in x:
                memory = memory * self.decay + row
                found.append(memory * row)
            return flambeau.stack(found).sum()

    net, x = Cell(), flambeau.randn(steps, 16)

    @flambeau.compile
    def step(x):
        net.zero_grad()
        loss = net(x)
        loss.backward()
        return loss

    lowered = flambeau.compiler.lower(step, x)
    return len(lowered.compile(options_with_barriers()).as_text())


def test_programs_grow_in_proportion_to_their_steps():
    # With a memory that each step computes from the first one, the ratio is 4.
    assert compiled_size(96) / compiled_size(48) < 2.5


def test_barriers_in_small_loops_are_removed():
    @jax.custom_vjp
    def hidden(x):
        return jax.lax.optimization_barrier(x * 2)

    hidden.defvjp(lambda x: (hidden(x), None), lambda _, cotangent: (cotangent * 2,))

    @compiled
    def run(x):
        kept = jax.lax.optimization_barrier(x + 1)
        return jax.lax.scan(lambda x, _: (hidden(x), x), kept, None, length=3)

    last, rows = run(X)
    np.testing.assert_allclose(last, (X + 1) * 8, rtol=1e-6)
    assert rows.shape == (3, 6)
    lowered = jitted(run).lower(X)
    with pytest.raises(jax.errors.JaxRuntimeError, match="opt-barrier"):
        # XLA cannot do it yet. If it can, `compiled_with_barriers` need not look for loops.
        lowered.compile(options_with_barriers())
    # The jaxpr of another function, which does not show the barrier in the loop.
    shown = jax.make_jaxpr(jax.lax.optimization_barrier)(X).jaxpr
    last, _ = compiled_with_barriers(lowered, shown)(X)
    np.testing.assert_allclose(last, (X + 1) * 8, rtol=1e-6)
