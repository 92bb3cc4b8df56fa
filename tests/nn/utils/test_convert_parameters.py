"""Parameters as a vector and back."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import parameters_to_vector, vector_to_parameters


def test_back_and_forth_is_the_identity():
    layer = nn.Linear(2, 3)
    vector = parameters_to_vector(layer.parameters())
    vector_to_parameters(vector * 2, layer.parameters())
    assert (parameters_to_vector(layer.parameters()) == 2 * vector).all()


def test_gradients_flow_into_the_vector():
    layer = nn.Linear(2, 3)
    parameters_to_vector(layer.parameters()).sum().backward()
    assert (layer.bias.grad == 1).all()


def test_a_short_vector_leaves_all_parameters_alone():
    layer = nn.Linear(2, 3)
    before = layer.weight.tolist()
    with pytest.raises(RuntimeError, match=r"vector of 9 elements, got shape \[8\]"):
        vector_to_parameters(flambeau.zeros(8), layer.parameters())
    assert layer.weight.tolist() == before


def test_parameters_do_not_share_the_vectors_elements():
    layer = nn.Linear(1, 1)
    vector = flambeau.zeros(2)
    vector_to_parameters(vector, layer.parameters())
    vector.fill_(1.0)
    assert layer.weight.item() == 0.0


def test_parameters_take_the_vectors_dtype():
    layer = nn.Linear(1, 1)
    vector_to_parameters(flambeau.zeros(2, dtype=flambeau.float64), layer.parameters())
    assert layer.weight.dtype is flambeau.float64


def test_devices_must_be_one():
    parameters = [flambeau.zeros(1), flambeau.zeros(1, device="meta")]
    with pytest.raises(TypeError, match="cpu, meta"):
        parameters_to_vector(parameters)
