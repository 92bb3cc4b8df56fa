"""One SGD step of a small MLP, dominated by the framework's overhead.

An MLP 64-128-128-128-10 on a batch of 32: hand-written jitted JAX with donation, flambeau compiled
and eager, PyTorch eager, Flax NNX and Equinox, with interleaved measurements.
"""

from __future__ import annotations

import os
from itertools import pairwise

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("FLAMBEAU_INTERPRET", "0")
# As installed by pip, and as the peers are.
os.environ.setdefault("FLAMBEAU_KERNELS", "0")

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from _results import keep
from _timing import claim, medians, table
from flax import nnx

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

SIZES = (64, 128, 128, 128, 10)
BATCH = 32
RATE = 0.01

rng = np.random.default_rng(0)
INPUTS = rng.standard_normal((BATCH, SIZES[0]), dtype=np.float32)
LABELS = rng.integers(0, SIZES[-1], BATCH)


def hand_written_jax():
    """The lower bound: parameters in a list, one jitted function, donated buffers."""
    parameters = [
        (
            jnp.asarray(rng.standard_normal((m, n), dtype=np.float32) * 0.1),
            jnp.zeros(n, jnp.float32),
        )
        for m, n in pairwise(SIZES)
    ]
    inputs, labels = jnp.asarray(INPUTS), jnp.asarray(LABELS)

    def loss_of(parameters, inputs, labels):
        for weight, bias in parameters[:-1]:
            inputs = jax.nn.relu(inputs @ weight + bias)
        weight, bias = parameters[-1]
        log_probabilities = jax.nn.log_softmax(inputs @ weight + bias)
        return -jnp.take_along_axis(log_probabilities, labels[:, None], 1).mean()

    def step(parameters, inputs, labels):
        loss, grads = jax.value_and_grad(loss_of)(parameters, inputs, labels)
        return jax.tree.map(lambda p, g: p - RATE * g, parameters, grads), loss

    step = jax.jit(step, donate_argnums=0)

    def run():
        nonlocal parameters
        parameters, loss = step(parameters, inputs, labels)
        return loss

    return run


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(m, n) for m, n in pairwise(SIZES))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


def with_flambeau(compiled):
    """The same step with a module and an optimizer, eager or compiled."""
    model = Net()
    optimizer = flambeau.optim.SGD(model.parameters(), lr=RATE)
    inputs, labels = flambeau.from_numpy(INPUTS), flambeau.from_numpy(LABELS)

    def step(inputs, labels):
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    if compiled:
        step = flambeau.compile(step)
    return lambda: step(inputs, labels)


def pytorch():
    """PyTorch eager, on the cores that it selects."""
    layers = []
    for m, n in pairwise(SIZES):
        layers += [torch.nn.Linear(m, n), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    inputs, labels = torch.from_numpy(INPUTS), torch.from_numpy(LABELS)

    def step():
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def flax_nnx():
    """Flax NNX with its own optimizer wrapper, as in its documentation."""

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.layers = nnx.List(nnx.Linear(m, n, rngs=rngs) for m, n in pairwise(SIZES))

        def __call__(self, x):
            for layer in self.layers[:-1]:
                x = nnx.relu(layer(x))
            return self.layers[-1](x)

    model = Model(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(RATE), wrt=nnx.Param)
    inputs, labels = jnp.asarray(INPUTS), jnp.asarray(LABELS)

    def loss_of(model, inputs, labels):
        return optax.softmax_cross_entropy_with_integer_labels(model(inputs), labels).mean()

    @nnx.jit
    def step(model, optimizer, inputs, labels):
        loss, grads = nnx.value_and_grad(loss_of)(model, inputs, labels)
        optimizer.update(model, grads)
        return loss

    return lambda: step(model, optimizer, inputs, labels)


def equinox():
    """Equinox with filter_jit and donation."""
    keys = jax.random.split(jax.random.key(0), len(SIZES) - 1)
    layers = [
        eqx.nn.Linear(m, n, key=key, dtype=jnp.float32)
        for (m, n), key in zip(pairwise(SIZES), keys, strict=True)
    ]
    optimizer = optax.sgd(RATE)
    state = optimizer.init(eqx.filter(layers, eqx.is_array))
    inputs, labels = jnp.asarray(INPUTS), jnp.asarray(LABELS)

    def loss_of(layers, inputs, labels):
        def predict(x):
            for layer in layers[:-1]:
                x = jax.nn.relu(layer(x))
            return layers[-1](x)

        logits = jax.vmap(predict)(inputs)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    @eqx.filter_jit(donate="all-except-first")
    def step(data, layers, state):
        loss, grads = eqx.filter_value_and_grad(loss_of)(layers, *data)
        updates, state = optimizer.update(grads, state)
        return loss, eqx.apply_updates(layers, updates), state

    def run():
        nonlocal layers, state
        loss, layers, state = step((inputs, labels), layers, state)
        return loss

    return run


def dispatch_ratio():
    """The ratio of an eager binary operator with gradients recorded to its jitted call."""
    left = flambeau.ones(16, 16, requires_grad=True)
    right = flambeau.ones(16, 16, requires_grad=True)
    bare = jax.jit(jnp.multiply)
    a, b = left.jax(), right.jax()
    times = medians({"jitted": lambda: bare(a, b), "operator": lambda: left * right})
    return times["operator"] / times["jitted"]


def main():
    times = medians(
        {
            "hand-written JAX": hand_written_jax(),
            "flambeau compiled": with_flambeau(compiled=True),
            "flambeau eager": with_flambeau(compiled=False),
            "PyTorch eager": pytorch(),
            "Flax NNX": flax_nnx(),
            "Equinox": equinox(),
        }
    )
    print(table(times, "hand-written JAX"))
    by_hand = times["hand-written JAX"]
    keep("mlp", {name: {"ratio": each / by_hand} for name, each in times.items()})
    compiled, eager = times["flambeau compiled"], times["flambeau eager"]
    print(claim("compiled / hand-written JAX", compiled / times["hand-written JAX"], 1.05))
    print(claim("compiled / Flax NNX", compiled / times["Flax NNX"], 0.5))
    print(claim("eager / PyTorch eager", eager / times["PyTorch eager"], 1.2))
    print(claim("one eager operator / its bare jitted call", dispatch_ratio(), 3.0))


if __name__ == "__main__":
    main()
