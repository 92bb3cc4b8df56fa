"""Dropout."""

import pytest

import flambeau
from flambeau import nn

KINDS = (
    nn.AlphaDropout, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.FeatureAlphaDropout,
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_probability_must_be_one(kind):
    for wrong in (-0.1, 1.1):
        with pytest.raises(ValueError, match=f"between 0 and 1, got {wrong}"):
            kind(wrong)


def test_kept_elements_are_scaled():
    flambeau.manual_seed(0)
    output = nn.Dropout(0.75)(flambeau.ones(64, 64))
    assert set(output.unique().tolist()) == {0.0, 4.0}
    assert abs(output.mean().item() - 1) < 0.1


def test_channels_are_dropped_whole():
    flambeau.manual_seed(0)
    output = nn.Dropout1d(0.5)(flambeau.ones(8, 8, 3))
    assert output.sum(-1).unique().tolist() == [0.0, 6.0]


def test_compiled_dropout_differs_from_call_to_call():
    flambeau.manual_seed(0)
    run = flambeau.compile(nn.Dropout(0.5))
    x = flambeau.ones(64)
    assert (run(x) != run(x)).any()
