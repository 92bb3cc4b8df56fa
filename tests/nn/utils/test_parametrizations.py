"""Orthogonal and normalized weights: what they keep in training, eager and compiled."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import parametrizations
from flambeau.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm

MAPS = ["matrix_exp", "cayley", "householder"]


def orthonormality(weight):
    """How far rows or columns, whichever are fewer, are from orthonormal."""
    products = weight @ weight.mT if weight.size(-2) <= weight.size(-1) else weight.mT @ weight
    return (products - flambeau.eye(products.size(-1))).abs().max().item()


def train(layer, steps=3, compiled=False):
    optimizer = flambeau.optim.SGD(layer.parameters(), lr=0.05)
    x = flambeau.linspace(-1, 1, 2 * layer.in_features).reshape(2, -1) ** 2

    def step():
        optimizer.zero_grad()
        loss = (layer(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    run = flambeau.compile(step) if compiled else step
    return [run().item() for _ in range(steps)]


@pytest.mark.parametrize("orthogonal_map", MAPS)
@pytest.mark.parametrize("trivialization", [True, False])
@pytest.mark.parametrize("shape", [(3, 4), (4, 3)])
def test_an_orthogonal_weight_stays_orthogonal(orthogonal_map, trivialization, shape):
    if orthogonal_map != "householder" and not trivialization and shape == (4, 3):
        shape = (3, 3)
    layer = nn.Linear(*shape)
    orthogonal(layer, orthogonal_map=orthogonal_map, use_trivialization=trivialization)
    losses = train(layer)
    assert losses[-1] < losses[0]
    assert orthonormality(layer.weight) < 1e-5


def test_a_batch_of_matrices_is_orthogonal():
    module = nn.Module()
    module.weight = nn.Parameter(flambeau.linspace(-1, 1, 24).reshape(2, 4, 3) ** 3)
    orthogonal(module)
    assert orthonormality(module.weight) < 1e-5


@pytest.mark.parametrize("orthogonal_map", MAPS)
def test_an_orthogonal_matrix_can_be_assigned(orthogonal_map):
    layer = orthogonal(nn.Linear(3, 3), orthogonal_map=orthogonal_map)
    value = flambeau.tensor([[0.0, 1, 0], [0, 0, 1], [1, 0, 0]])
    layer.weight = value
    assert flambeau.allclose(layer.weight, value, atol=1e-6)


def test_complex_matrices_have_no_householder_map():
    module = nn.Module()
    module.weight = nn.Parameter(flambeau.zeros(2, 2, dtype=flambeau.complex64))
    with pytest.raises(ValueError, match="matrix_exp"):
        orthogonal(module, orthogonal_map="householder")


def test_a_spectrally_normalized_weight_has_norm_one():
    layer = spectral_norm(nn.Linear(4, 3))
    train(layer, 20)
    assert flambeau.linalg.norm(layer.eval().weight, 2).item() == pytest.approx(1.0, rel=1e-2)


def test_singular_vectors_are_refined_in_training_only():
    layer = spectral_norm(nn.Linear(4, 3))
    vectors = layer.parametrizations.weight[0]
    before = vectors._u.clone()
    layer.eval()
    layer(flambeau.ones(1, 4))
    assert (vectors._u == before).all()
    layer.train()
    with flambeau.no_grad():
        layer.parametrizations.weight.original[0] += 1.0
    layer(flambeau.ones(1, 4))
    assert (vectors._u != before).any()


def test_a_normalized_weight_has_the_length_it_learned():
    layer = weight_norm(nn.Linear(4, 3))
    train(layer)
    lengths = layer.parametrizations.weight.original0
    assert flambeau.allclose(layer.weight.norm(dim=1, keepdim=True), lengths)


@pytest.mark.parametrize("name", ["orthogonal", "spectral_norm", "weight_norm"])
def test_compiled_training_is_eager_training(name):
    layers = []
    for compiled in (False, True):
        flambeau.manual_seed(3)
        layer = getattr(parametrizations, name)(nn.Linear(4, 3))
        layers.append((layer, train(layer, compiled=compiled)))
    (eager, eager_losses), (compiled, compiled_losses) = layers
    assert compiled_losses == pytest.approx(eager_losses, rel=1e-4)
    for key, value in eager.state_dict().items():
        assert flambeau.allclose(compiled.state_dict()[key], value, atol=1e-5)
