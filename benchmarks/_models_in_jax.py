"""Three of the models in plain JAX, as one jitted training step, without any framework.

Parameters are one dictionary under PyTorch's names and in its layouts, so that the losses can be
compared with those of the same model of `_models`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

CLASSES, WORDS, WIDTH, HEADS, LAYERS, PLACES = 10, 1000, 256, 8, 4, 128
RATE, DECAY, BETA1, BETA2, EPSILON, NORM = 1e-4, 0.01, 0.9, 0.999, 1e-8, 1.0
BLOCKS = [(16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]

Arrays = dict[str, Any]
rng = np.random.default_rng(0)


def uniform(*shape: int) -> jax.Array:
    bound = 1 / math.sqrt(math.prod(shape[1:]))
    return jnp.asarray(rng.uniform(-bound, bound, shape).astype(np.float32))


def constant(size: int, value: float) -> jax.Array:
    return jnp.asarray(np.full(size, value, np.float32))


def linear_parameters(name: str, outputs: int, inputs: int) -> Arrays:
    return {f"{name}.weight": uniform(outputs, inputs), f"{name}.bias": constant(outputs, 0)}


def norm_parameters(name: str, size: int) -> Arrays:
    return {f"{name}.weight": constant(size, 1), f"{name}.bias": constant(size, 0)}


def linear(of: Arrays, name: str, x: jax.Array) -> jax.Array:
    return x @ of[f"{name}.weight"].T + of[f"{name}.bias"]


# The perceptron.


def perceptron_parameters() -> tuple[Arrays, Arrays]:
    sizes = {"0": (512, 784), "2": (512, 512), "4": (CLASSES, 512)}
    layers = [linear_parameters(name, *size) for name, size in sizes.items()]
    return {key: each for layer in layers for key, each in layer.items()}, {}


def perceptron(of: Arrays, running: Arrays, x: jax.Array) -> tuple[jax.Array, Arrays]:
    for name in "02":
        x = jax.nn.relu(linear(of, name, x))
    return linear(of, "4", x), running


# The residual network.


def convolution(x: jax.Array, weight: jax.Array, stride: int = 1) -> jax.Array:
    around = weight.shape[-1] // 2
    return lax.conv_general_dilated(x, weight, (stride, stride), [(around, around)] * 2)


def batch_norm(of: Arrays, running: Arrays, name: str, x: jax.Array) -> tuple[jax.Array, Arrays]:
    """The output of the layer, and its updated running statistics."""
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    count = x.size // x.shape[1]
    seen = {"running_mean": mean, "running_var": variance * (count / (count - 1))}
    after = {f"{name}.{key}": 0.9 * running[f"{name}.{key}"] + 0.1 * seen[key] for key in seen}
    scale = lax.rsqrt(variance + 1e-5) * of[f"{name}.weight"]
    shift = of[f"{name}.bias"] - mean * scale
    return x * scale[:, None, None] + shift[:, None, None], after


def residual_network_parameters() -> tuple[Arrays, Arrays]:
    of = {"0.0.weight": uniform(16, 3, 3, 3), **linear_parameters("7.2", CLASSES, 64)}
    norms = {"0.1": 16}
    for number, (inputs, outputs, _) in enumerate(BLOCKS, 1):
        of[f"{number}.body.0.weight"] = uniform(outputs, inputs, 3, 3)
        of[f"{number}.body.3.weight"] = uniform(outputs, outputs, 3, 3)
        norms |= {f"{number}.body.1": outputs, f"{number}.body.4": outputs}
        if inputs != outputs:
            of[f"{number}.skip.weight"] = uniform(outputs, inputs, 1, 1)
            of[f"{number}.skip.bias"] = constant(outputs, 0)
    running = {}
    for name, size in norms.items():
        of |= norm_parameters(name, size)
        running |= {
            f"{name}.running_mean": constant(size, 0),
            f"{name}.running_var": constant(size, 1),
        }
    return of, running


def residual_network(of: Arrays, running: Arrays, x: jax.Array) -> tuple[jax.Array, Arrays]:
    after = {}

    def normed(name: str, x: jax.Array) -> jax.Array:
        x, statistics = batch_norm(of, running, name, x)
        after.update(statistics)
        return x

    x = jax.nn.relu(normed("0.1", convolution(x, of["0.0.weight"])))
    for number, (inputs, outputs, stride) in enumerate(BLOCKS, 1):
        y = convolution(x, of[f"{number}.body.0.weight"], stride)
        y = jax.nn.relu(normed(f"{number}.body.1", y))
        y = normed(f"{number}.body.4", convolution(y, of[f"{number}.body.3.weight"]))
        if inputs != outputs:
            x = convolution(x, of[f"{number}.skip.weight"], stride)
            x = x + of[f"{number}.skip.bias"][:, None, None]
        x = jax.nn.relu(y + x)
    return linear(of, "7.2", x.mean((2, 3))), after


# The GPT.


def layer_norm(of: Arrays, name: str, x: jax.Array) -> jax.Array:
    x = x - x.mean(-1, keepdims=True)
    x = x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5)
    return x * of[f"{name}.weight"] + of[f"{name}.bias"]


def attention(of: Arrays, name: str, x: jax.Array) -> jax.Array:
    batch, length, _ = x.shape
    x = x @ of[f"{name}.in_proj_weight"].T + of[f"{name}.in_proj_bias"]
    queries, keys, values = jnp.moveaxis(x.reshape(batch, length, 3, HEADS, -1), 2, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", queries, keys) / math.sqrt(WIDTH // HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    x = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), values)
    return linear(of, f"{name}.out_proj", x.reshape(batch, length, WIDTH))


def gpt_parameters() -> tuple[Arrays, Arrays]:
    of = {"words.weight": uniform(WORDS, WIDTH), "places.weight": uniform(PLACES, WIDTH)}
    for number in range(LAYERS):
        name = f"layers.layers.{number}"
        of[f"{name}.self_attn.in_proj_weight"] = uniform(3 * WIDTH, WIDTH)
        of[f"{name}.self_attn.in_proj_bias"] = constant(3 * WIDTH, 0)
        of |= linear_parameters(f"{name}.self_attn.out_proj", WIDTH, WIDTH)
        of |= linear_parameters(f"{name}.linear1", 4 * WIDTH, WIDTH)
        of |= linear_parameters(f"{name}.linear2", WIDTH, 4 * WIDTH)
        of |= norm_parameters(f"{name}.norm1", WIDTH) | norm_parameters(f"{name}.norm2", WIDTH)
    return of | linear_parameters("head", WORDS, WIDTH), {}


def gpt(of: Arrays, running: Arrays, tokens: jax.Array) -> tuple[jax.Array, Arrays]:
    x = of["words.weight"][tokens] + of["places.weight"][: tokens.shape[1]]
    for number in range(LAYERS):
        name = f"layers.layers.{number}"
        x = x + attention(of, f"{name}.self_attn", layer_norm(of, f"{name}.norm1", x))
        y = linear(of, f"{name}.linear1", layer_norm(of, f"{name}.norm2", x))
        x = x + linear(of, f"{name}.linear2", jax.nn.gelu(y, approximate=False))
    return linear(of, "head", x), running


# The training step.

MODELS: dict[str, tuple[Callable[[], tuple[Arrays, Arrays]], Callable[..., Any]]] = {
    "perceptron": (perceptron_parameters, perceptron),
    "residual_network": (residual_network_parameters, residual_network),
    "gpt": (gpt_parameters, gpt),
}


def start_of(name: str) -> tuple[Any, ...]:
    """The initial parameters, running statistics, moments and step count."""
    return state_of(*MODELS[name][0]())


def state_of(of: Arrays, running: Arrays) -> tuple[Any, ...]:
    """The initial state with existing parameters and running statistics."""
    zeros = {key: jnp.asarray(np.zeros(each.shape, np.float32)) for key, each in of.items()}
    again = {key: jnp.asarray(np.zeros(each.shape, np.float32)) for key, each in of.items()}
    return of, running, zeros, again, jnp.asarray(np.float32(0))


def step_of(name: str) -> Callable[..., tuple[Any, tuple[Any, ...]]]:
    """A jitted step from state, input and target to the loss and the next state."""
    model = MODELS[name][1]

    def loss_of(of: Arrays, running: Arrays, input: jax.Array, target: jax.Array) -> Any:
        scores, running = model(of, running, input)
        chances = jax.nn.log_softmax(scores)
        return -jnp.take_along_axis(chances, target[..., None], -1).mean(), running

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state: tuple[Any, ...], input: jax.Array, target: jax.Array) -> Any:
        of, running, first, second, count = state
        differentiated = jax.value_and_grad(loss_of, has_aux=True)
        (loss, running), gradients = differentiated(of, running, input, target)
        norm = jnp.sqrt(sum(jnp.vdot(each, each) for each in gradients.values()))
        kept = jnp.minimum(NORM / (norm + 1e-6), 1)
        count = count + 1
        for key, gradient in gradients.items():
            gradient = gradient * kept
            first[key] = BETA1 * first[key] + (1 - BETA1) * gradient
            second[key] = BETA2 * second[key] + (1 - BETA2) * gradient * gradient
            root = jnp.sqrt(second[key] / (1 - BETA2**count)) + EPSILON
            change = first[key] / (1 - BETA1**count) / root
            of[key] = of[key] * (1 - RATE * DECAY) - RATE * change
        return loss, (of, running, first, second, count)

    return step
