"""Names of `distributed` that programs ask about."""

import pytest

import flambeau
from flambeau.distributed import tensor


def test_no_tensor_is_spread_over_processes():
    assert issubclass(tensor.DTensor, flambeau.Tensor)
    assert not isinstance(flambeau.nn.Parameter(flambeau.ones(2)), tensor.DTensor)
    for make in (tensor.DTensor, tensor.DTensor.from_local):
        with pytest.raises(NotImplementedError, match=r"jax\.device_put"):
            make(flambeau.ones(2))
    with pytest.raises(AttributeError, match="'distribute_tensor': several devices work together"):
        tensor.distribute_tensor  # noqa: B018
