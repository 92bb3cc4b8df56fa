"""The older name of functional_call."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import stateless


def test_a_module_is_called_with_other_parameters():
    layer = nn.Linear(2, 1, bias=False)
    before = layer.weight.tolist()
    with pytest.warns(FutureWarning, match="flambeau.func.functional_call"):
        found = stateless.functional_call(
            layer, {"weight": flambeau.ones(1, 2)}, flambeau.ones(3, 2)
        )
    assert found.tolist() == [[2.0]] * 3
    assert layer.weight.tolist() == before
