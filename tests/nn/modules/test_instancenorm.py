"""Instance normalization: its checks and its older states."""

from collections import OrderedDict

import pytest

import flambeau
from flambeau import nn


def test_other_numbers_of_dimensions_are_refused():
    with pytest.raises(ValueError, match="InstanceNorm2d takes an input of 3 or 4 dimensions"):
        nn.InstanceNorm2d(3)(flambeau.ones(2, 3))


def test_other_numbers_of_channels_matter_to_parameters_only():
    with pytest.raises(ValueError, match="4 channels, but num_features is 3"):
        nn.InstanceNorm1d(3, affine=True)(flambeau.ones(2, 4, 2))
    with pytest.warns(UserWarning, match="4 channels, but num_features is 3"):
        nn.InstanceNorm1d(3)(flambeau.ones(2, 4, 2))


def test_statistics_of_older_states_are_refused_by_name():
    state = OrderedDict(running_mean=flambeau.zeros(3), running_var=flambeau.ones(3))
    with pytest.raises(RuntimeError, match=r"running_mean and running_var.*InstanceNorm1d"):
        nn.InstanceNorm1d(3).load_state_dict(state)
    assert set(state) == {"running_mean", "running_var"}
