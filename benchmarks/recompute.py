"""The memory that a compiled step of a dozen layers saves if each layer is checkpointed.

Temporary memory by XLA's analysis, and process time, each as a ratio to the same step without
checkpoints; the multilayer perceptron is compared with `jax.checkpoint` in plain JAX.
"""

from __future__ import annotations

import os
import statistics
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("FLAMBEAU_INTERPRET", "0")

import jax
import jax.numpy as jnp
from _results import keep

import flambeau
from flambeau import nn
from flambeau.core.programs.compiled import jitted
from flambeau.utils.checkpoint import checkpoint

LAYERS = 12
ROUNDS = 5


def perceptron():
    return nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))


def transformer():
    return nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True)


def convolution():
    layer = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.SiLU())
    return nn.Sequential(layer, nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.SiLU())


CASES = {
    "Linear(256, 1024), GELU, Linear(1024, 256), batch 2048": (perceptron, (2048, 256)),
    "the same, batch 64": (perceptron, (64, 256)),
    "TransformerEncoderLayer(256, 8), 4 x 128": (transformer, (4, 128, 256)),
    "twice Conv2d(32, 32, 3), BatchNorm2d, SiLU, 8 x 32 x 32": (convolution, (8, 32, 32, 32)),
}


def step_of(make, shape, saves):
    """A compiled training step, and the temporary memory of its program."""
    flambeau.manual_seed(0)
    layers = nn.ModuleList(make() for _ in range(LAYERS))
    optimizer = flambeau.optim.SGD(layers.parameters(), lr=1e-3)
    x = flambeau.randn(*shape)

    @flambeau.compile
    def step(x):
        optimizer.zero_grad()
        for each in layers:
            x = checkpoint(each, x) if saves else each(x)
        loss = x.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step(x)
    (program,) = (each for kind in step.kinds.values() for each in kind.programs)
    arrays = [each.array for each in (*program.donated, *program.kept)]
    arrays += [x.jax(), *(each.read() for each in program.reads[1:])]
    return lambda: step(x).jax(), memory(jitted(program.executable), *arrays)


def memory(function, *arrays):
    specs = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in arrays]
    return function.lower(*specs).compile().memory_analysis().temp_size_in_bytes


def step_by_hand(wrap):
    """The plain JAX step of the perceptrons, and its temporary memory."""

    @wrap
    def layer(weights, x):
        return jax.nn.gelu(x @ weights[0], approximate=False) @ weights[1]

    def loss_of(weights, x):
        for each in weights:
            x = layer(each, x)
        return jnp.square(x).mean()

    def step(weights, x):
        gradients = jax.grad(loss_of)(weights, x)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradients)

    pair = jnp.ones((256, 1024), jnp.float32) / 512, jnp.ones((1024, 256), jnp.float32) / 512
    weights, x = [pair] * LAYERS, jnp.ones((2048, 256), jnp.float32)
    compiled = jax.jit(step)
    specs = jax.eval_shape(lambda: (weights, x))
    analysis = compiled.lower(*specs).compile().memory_analysis()
    return lambda: compiled(weights, x), analysis.temp_size_in_bytes


def seconds_of(step):
    start = time.process_time()
    jax.block_until_ready(step())
    return time.process_time() - start


def ratios(plain, saving):
    """The ratios of memory and time, from interleaved steps after one warm-up of each."""
    times = [(seconds_of(plain[0]), seconds_of(saving[0])) for _ in range(ROUNDS + 1)][1:]
    before, after = map(statistics.median, zip(*times, strict=True))
    return {"memory": saving[1] / plain[1], "time": after / before}


print(f"JAX {jax.__version__}, {jax.devices()[0].platform}; ratios to the step without checkpoints")
by_hand = step_by_hand(lambda layer: layer), step_by_hand(jax.checkpoint)
rows = {"the first of these with jax.checkpoint by hand": ratios(*by_hand)}
for name, (make, shape) in CASES.items():
    rows[name] = ratios(*(step_of(make, shape, saves) for saves in (False, True)))
for name, found in rows.items():
    print(f"{name:58} memory {found['memory']:.2f}  time {found['time']:.2f}")
keep("recompute", rows)
