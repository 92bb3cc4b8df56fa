"""Prefixes of saved states."""

from flambeau import nn
from flambeau.nn.modules.utils import consume_prefix_in_state_dict_if_present


def test_prefix_is_taken_off_keys_and_metadata():
    model = nn.Linear(1, 1)
    wrapped = nn.Module()
    wrapped.module = nn.Sequential(model)
    state = wrapped.state_dict()
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["0.weight", "0.bias"]
    assert sorted(state._metadata) == ["", "0"]
    assert str(nn.Sequential(model).load_state_dict(state)) == "<All keys matched successfully>"


def test_other_keys_stay():
    state = {"module.a": 1, "b": 2}
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert state == {"b": 2, "a": 1}
