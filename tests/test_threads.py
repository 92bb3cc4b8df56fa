"""The threads that XLA computes with."""

import warnings

import pytest

import flambeau


@pytest.mark.parametrize("kind", ["threads", "interop_threads"])
def test_asking_for_other_threads_than_there_are_warns(kind):
    ask, there = getattr(flambeau, f"set_num_{kind}"), getattr(flambeau, f"get_num_{kind}")()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ask(there)
    with pytest.warns(UserWarning, match=f"keeps the {there} that it started with"):
        ask(there + 1)
    assert getattr(flambeau, f"get_num_{kind}")() == there
    with pytest.raises(RuntimeError, match="must be positive, got 0"):
        ask(0)
