"""Layers of every kind under the transformations of JAX and of this library."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import flambeau
from flambeau import func, nn


class Example(NamedTuple):
    """A layer, and the shapes, or integers, that it is called with."""

    make: Any
    inputs: tuple[Any, ...]


LAYERS = {
    "Linear": Example(lambda: nn.Linear(3, 2), ((2, 3),)),
    "Bilinear": Example(lambda: nn.Bilinear(3, 2, 2), ((2, 3), (2, 2))),
    "Conv2d": Example(lambda: nn.Conv2d(2, 2, 2), ((1, 2, 3, 3),)),
    "ConvTranspose1d": Example(lambda: nn.ConvTranspose1d(2, 2, 2), ((1, 2, 3),)),
    "BatchNorm1d": Example(lambda: nn.BatchNorm1d(2).eval(), ((3, 2),)),
    "GroupNorm": Example(lambda: nn.GroupNorm(2, 4), ((2, 4, 2),)),
    "LayerNorm": Example(lambda: nn.LayerNorm(3), ((2, 3),)),
    "LSTM": Example(lambda: nn.LSTM(3, 2), ((2, 1, 3),)),
    "GRUCell": Example(lambda: nn.GRUCell(3, 2), ((2, 3),)),
    "MultiheadAttention": Example(lambda: nn.MultiheadAttention(4, 2), ((2, 1, 4),) * 3),
    "TransformerEncoderLayer": Example(
        lambda: nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0), ((3, 1, 4),)
    ),
    "Embedding": Example(lambda: nn.Embedding(4, 3), ([0, 3, 1, 1],)),
    "EmbeddingBag": Example(lambda: nn.EmbeddingBag(4, 3), ([[0, 3], [1, 1]],)),
    "MaxPool2d": Example(lambda: nn.MaxPool2d(2), ((1, 2, 4, 4),)),
    "AdaptiveAvgPool1d": Example(lambda: nn.AdaptiveAvgPool1d(2), ((1, 2, 3),)),
    "MaxUnpool1d": Example(lambda: nn.MaxUnpool1d(2), ((1, 2, 2), [[[1, 3], [0, 2]]])),
    "PReLU": Example(lambda: nn.PReLU(3), ((2, 3),)),
    "Softmax": Example(lambda: nn.Softmax(1), ((2, 3),)),
    "Upsample": Example(lambda: nn.Upsample(None, 2, mode="linear"), ((1, 2, 3),)),
    "CrossEntropyLoss": Example(lambda: nn.CrossEntropyLoss(), ((2, 3), [0, 2])),
    "KLDivLoss": Example(lambda: nn.KLDivLoss(reduction="batchmean"), ((2, 3), (2, 3))),
}


def numbers(*shape):
    """Numbers between -1 and 1, no two the same."""
    values = np.arange(np.prod(shape)) * 7 % 31 / 16 - 0.97
    return flambeau.tensor(values.reshape(shape), dtype=flambeau.float64)


class Problem:
    """One layer with its inputs, as a function of its parameters and of its real inputs."""

    def __init__(self, name):
        flambeau.manual_seed(0)
        example = LAYERS[name]
        self.layer = example.make().double()
        self.inputs = [
            numbers(*each) if isinstance(each, tuple) else flambeau.tensor(each)
            for each in example.inputs
        ]
        self.real = [i for i, each in enumerate(self.inputs) if each.is_floating_point()]
        parameters = {name: each.detach() for name, each in self.layer.named_parameters()}
        self.arguments = (parameters, *(self.inputs[i] for i in self.real))

    def __call__(self, parameters, *real):
        inputs = list(self.inputs)
        for place, each in zip(self.real, real, strict=True):
            inputs[place] = each
        found = func.functional_call(self.layer, parameters, tuple(inputs))
        return sum(waved(each) for each in flat(found) if each is not None)

    def gradients(self, *arguments):
        return func.grad(self, tuple(range(len(arguments))))(*arguments)


def waved(value):
    sine = value.sin() if is_tensor(value) else jnp.sin(value)
    return (sine + value).sum()


def flat(value):
    return [e for each in value for e in flat(each)] if isinstance(value, tuple) else [value]


def arrays(value):
    return jax.tree.map(lambda each: each.jax(), value, is_leaf=is_tensor)


def is_tensor(value):
    return isinstance(value, flambeau.Tensor)


def assert_close(found, expected):
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("name", LAYERS)
def test_jax_differentiates_a_layer_as_the_tape_does(name):
    problem = Problem(name)
    given = arrays(problem.arguments)
    value, gradients = jax.jit(jax.value_and_grad(problem, tuple(range(len(given)))))(*given)
    assert_close(value, problem(*problem.arguments).jax())
    assert_close(gradients, arrays(problem.gradients(*problem.arguments)))


@pytest.mark.parametrize("name", LAYERS)
def test_several_layers_at_once_are_those_one_by_one(name):
    problem = Problem(name)
    stacked = jax.tree.map(
        lambda each: flambeau.stack([each, each * 0.9]), problem.arguments, is_leaf=is_tensor
    )
    found = func.vmap(problem.gradients)(*stacked)
    for place, factor in enumerate((1.0, 0.9)):
        given = jax.tree.map(lambda e: e * factor, problem.arguments, is_leaf=is_tensor)  # noqa: B023
        row = jax.tree.map(lambda e: e[place].jax(), found, is_leaf=is_tensor)  # noqa: B023
        assert_close(row, arrays(problem.gradients(*given)))


@pytest.mark.parametrize("name", LAYERS)
def test_forward_over_reverse_is_reverse_over_reverse(name):
    problem = Problem(name)
    directions = jax.tree.map(
        lambda each: flambeau.full_like(each, 0.3), problem.arguments, is_leaf=is_tensor
    )

    def along(*arguments):
        return sum(each.sum() * 0.3 for each in jax.tree.leaves(
            problem.gradients(*arguments), is_leaf=is_tensor))  # fmt: skip

    _, forward = func.jvp(problem.gradients, problem.arguments, directions)
    places = tuple(range(len(problem.arguments)))
    assert_close(arrays(forward), arrays(func.grad(along, places)(*problem.arguments)))
