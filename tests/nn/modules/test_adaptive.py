"""Adaptive softmax."""

import pytest

import flambeau
from flambeau import nn


@pytest.fixture
def layer():
    flambeau.manual_seed(0)
    return nn.AdaptiveLogSoftmaxWithLoss(8, 6, [2, 4], div_value=2.0)


@pytest.mark.parametrize("cutoffs", [[], [3, 2], [2, 2], [0, 3], [2, 6], [2, 2.5]])
def test_cutoffs_must_rise_between_the_ends(cutoffs):
    with pytest.raises(ValueError, match="rising integers"):
        nn.AdaptiveLogSoftmaxWithLoss(8, 6, cutoffs)


def test_log_probabilities_are_those_of_a_distribution(layer):
    x = flambeau.arange(24.0).reshape(3, 8).sin()
    total = layer.log_prob(x).exp().sum(1)
    assert (total - 1).abs().max().item() < 1e-6


def test_output_is_the_log_probability_of_the_target(layer):
    x = flambeau.arange(48.0).reshape(6, 8).sin()
    target = flambeau.tensor([0, 1, 2, 3, 4, 5])
    output, loss = layer(x, target)
    expected = layer.log_prob(x).gather(1, target.unsqueeze(1)).squeeze(1)
    assert (output - expected).abs().max().item() < 1e-6
    assert abs(loss.item() + output.mean().item()) < 1e-6


def test_prediction_is_the_most_probable_class(layer):
    x = 20 * flambeau.arange(48.0).reshape(6, 8).sin()
    assert layer.predict(x).tolist() == layer.log_prob(x).argmax(1).tolist()


def test_compiled_for_one_batch_it_serves_for_others(layer):
    @flambeau.compile
    def run(x, target):
        return layer(x, target).loss

    x = flambeau.arange(24.0).reshape(3, 8).sin()
    for targets in ([0, 1, 0], [5, 2, 0]):
        target = flambeau.tensor(targets)
        assert abs(run(x, target).item() - layer(x, target).loss.item()) < 1e-6
    assert run.program_count == 1


def test_inputs_are_checked(layer):
    x = flambeau.ones(3, 8)
    with pytest.raises(RuntimeError, match="classes from 0 to 5, got values from 0 to 6"):
        layer(x, flambeau.tensor([0, 6, 1]))
    with pytest.raises(RuntimeError, match=r"shape \[2\] needs an input"):
        layer(x, flambeau.tensor([0, 1]))
    with pytest.raises(RuntimeError, match=r"\(N,\) or \(\), got \[1, 3\]"):
        layer(x, flambeau.tensor([[0, 1, 2]]))
