"""The older spectral normalization: buffers, versions, compiled use."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.utils import remove_spectral_norm, spectral_norm


def test_singular_vectors_are_buffers():
    layer = spectral_norm(nn.Linear(4, 3))
    assert sorted(name for name, _ in layer.named_buffers()) == ["weight_u", "weight_v"]
    assert layer.state_dict()._metadata[""]["spectral_norm"] == {"weight.version": 1}


def test_the_weight_has_norm_one():
    layer = spectral_norm(nn.Linear(4, 3), n_power_iterations=30)
    layer(flambeau.ones(1, 4))
    assert flambeau.linalg.norm(layer.weight, 2).item() == pytest.approx(1.0, rel=1e-3)


def test_removing_keeps_the_weight_and_no_hook():
    layer = spectral_norm(nn.Linear(4, 3))
    layer.eval()(flambeau.ones(1, 4))
    expected = layer.weight.detach().clone()
    remove_spectral_norm(layer)
    assert flambeau.allclose(layer.weight, expected)
    assert not layer._forward_pre_hooks
    assert not layer._state_dict_hooks
    assert not layer._load_state_dict_pre_hooks
    assert list(layer.state_dict()) == ["bias", "weight"]


def test_compiled_training_is_eager_training():
    states = []
    for compiled in (False, True):
        flambeau.manual_seed(3)
        layer = spectral_norm(nn.Linear(4, 3))
        optimizer = flambeau.optim.SGD(layer.parameters(), lr=0.3)

        def step(x, layer=layer, optimizer=optimizer):
            optimizer.zero_grad()
            (layer(x) ** 2).sum().backward()
            optimizer.step()

        run = flambeau.compile(step) if compiled else step
        for _ in range(3):
            run(flambeau.ones(1, 4))
        states.append(layer.state_dict())
    for found, expected in zip(states[1].values(), states[0].values(), strict=True):
        assert flambeau.allclose(found, expected, atol=1e-6)


def test_a_missing_weight_is_refused():
    with pytest.raises(ValueError, match="is None"):
        spectral_norm(nn.Linear(4, 3, bias=False), "bias")
