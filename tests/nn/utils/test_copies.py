"""Modules whose weight is computed are pickled, and copied, with a weight that is a leaf."""

import copy
import pickle

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import prune

X = flambeau.ones(1, 2)
MADE = {
    "weight norm": nn.utils.weight_norm,
    "spectral norm": nn.utils.spectral_norm,
    "pruned": lambda layer: prune.l1_unstructured(layer, "weight", 0.5),
}


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")
@pytest.mark.parametrize("name", MADE)
def test_a_module_with_a_computed_weight_is_pickled_and_copied(name):
    layer = MADE[name](nn.Linear(2, 2))
    layer(X)
    layer.eval()
    expected = layer(X).tolist()
    for each in (pickle.loads(pickle.dumps(layer)), copy.copy(layer)):
        assert each(X).tolist() == expected
        assert [n for n, _ in each.named_parameters()] == [n for n, _ in layer.named_parameters()]
        each.train()
        each(X).sum().backward()
        assert all(parameter.grad is not None for parameter in each.parameters())
    layer(X)
    with pytest.raises(RuntimeError, match=r"graph leaves.*\(attribute 'weight' of Linear\)"):
        copy.deepcopy(layer)
