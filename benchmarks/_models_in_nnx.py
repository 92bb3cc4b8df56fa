"""The same three models in Flax NNX, with its own layers and optax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

CLASSES, WORDS, WIDTH, HEADS, LAYERS, PLACES = 10, 1000, 256, 8, 4, 128
BLOCKS = [(16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]


class Perceptron(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(784, 512, rngs=rngs)
        self.second = nnx.Linear(512, 512, rngs=rngs)
        self.last = nnx.Linear(512, CLASSES, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(nnx.relu(self.second(nnx.relu(self.first(x)))))


def convolution(inputs: int, outputs: int, size: int, stride: int, rngs: nnx.Rngs) -> nnx.Conv:
    return nnx.Conv(inputs, outputs, (size, size), stride, use_bias=size == 1, rngs=rngs)


class Block(nnx.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, rngs: nnx.Rngs) -> None:
        self.body = nnx.Sequential(
            convolution(inputs, outputs, 3, stride, rngs),
            nnx.BatchNorm(outputs, rngs=rngs),
            nnx.relu,
            convolution(outputs, outputs, 3, 1, rngs),
            nnx.BatchNorm(outputs, rngs=rngs),
        )
        self.skip = convolution(inputs, outputs, 1, stride, rngs) if inputs != outputs else None

    def __call__(self, x: jax.Array) -> jax.Array:
        return nnx.relu(self.body(x) + (x if self.skip is None else self.skip(x)))


class ResidualNetwork(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = convolution(3, 16, 3, 1, rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.blocks = nnx.List(Block(*sizes, rngs) for sizes in BLOCKS)
        self.last = nnx.Linear(64, CLASSES, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = nnx.relu(self.norm(self.first(jnp.moveaxis(x, 1, -1))))
        for block in self.blocks:
            x = block(x)
        return self.last(x.mean((1, 2)))


class Layer(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norm1, self.norm2 = (nnx.LayerNorm(WIDTH, rngs=rngs) for _ in range(2))
        self.attention = nnx.MultiHeadAttention(HEADS, WIDTH, decode=False, rngs=rngs)
        self.linear1 = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.linear2 = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)

    def __call__(self, x: jax.Array, mask: jax.Array) -> jax.Array:
        x = x + self.attention(self.norm1(x), mask=mask)
        hidden = nnx.gelu(self.linear1(self.norm2(x)), approximate=False)
        return x + self.linear2(hidden)


class GPT(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.words = nnx.Embed(WORDS, WIDTH, rngs=rngs)
        self.places = nnx.Embed(PLACES, WIDTH, rngs=rngs)
        self.layers = nnx.List(Layer(rngs) for _ in range(LAYERS))
        self.head = nnx.Linear(WIDTH, WORDS, rngs=rngs)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = self.words(tokens) + self.places(jnp.arange(tokens.shape[1]))
        mask = nnx.make_causal_mask(tokens)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)


MODELS: dict[str, Callable[[nnx.Rngs], Any]] = {
    "perceptron": Perceptron,
    "residual_network": ResidualNetwork,
    "gpt": GPT,
}


def build(name: str, input: Any, target: Any) -> Callable[[], jax.Array]:
    """A jitted training step on one batch that returns the loss."""
    model = MODELS[name](nnx.Rngs(0))
    rule = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-4, weight_decay=0.01))
    optimizer = nnx.Optimizer(model, rule, wrt=nnx.Param)
    input, target = jnp.asarray(input), jnp.asarray(target)

    def loss_of(model: Any, input: jax.Array, target: jax.Array) -> jax.Array:
        scores = model(input)
        return optax.softmax_cross_entropy_with_integer_labels(scores, target).mean()

    @nnx.jit
    def step(model: Any, optimizer: Any, input: jax.Array, target: jax.Array) -> jax.Array:
        loss, gradients = nnx.value_and_grad(loss_of)(model, input, target)
        optimizer.update(model, gradients)
        return loss

    def run() -> jax.Array:
        loss = step(model, optimizer, input, target)
        jax.block_until_ready(nnx.state(model))
        return loss

    return run
