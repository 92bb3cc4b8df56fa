"""The message of a failed load helps to find the mistake."""

import pytest

import flambeau
from flambeau import nn
from flambeau.nn.load_report import load_error


def model():
    return nn.Sequential(nn.ParameterDict({"weight": flambeau.ones(1), "bias": flambeau.ones(1)}))


@pytest.mark.parametrize("prefix", ["module.", "net.encoder."])
def test_a_common_prefix_is_one_line(prefix):
    layer = nn.Linear(2, 1)
    longer = {prefix + name: each for name, each in layer.state_dict().items()}
    with pytest.raises(RuntimeError) as error:
        layer.load_state_dict(longer)
    _, second = str(error.value).splitlines()
    assert "Missing key(s) in state_dict (2) and Unexpected key(s) in state_dict (2):" in second
    assert f"the names of the state dict begin with '{prefix}'" in second
    assert f"{{name.removeprefix('{prefix}'): each for name, each in state_dict" in second
    wrapped = nn.ModuleDict({"module": layer})
    with pytest.raises(
        RuntimeError, match=r"of the model begin with 'module\.'.*'module\.' \+ name"
    ):
        wrapped.load_state_dict(layer.state_dict())
    # The names that the prefix does not explain stand alone.
    with pytest.raises(RuntimeError) as error:
        layer.load_state_dict({**longer, "head": flambeau.ones(1)})
    assert '\n\tUnexpected key(s) in state_dict (1):\n\t  "head"' in str(error.value)


@pytest.mark.parametrize("key", ["model", "any"])
def test_a_whole_checkpoint_is_named_as_such(key):
    layer = nn.Linear(2, 1)
    whole = {key: layer.state_dict(), "optimizer": {"state": {}, "param_groups": []}, "epoch": 3}
    with pytest.raises(RuntimeError) as error:
        layer.load_state_dict(whole)
    assert f"with the keys '{key}', 'optimizer', 'epoch'; load its entry '{key}'" in str(
        error.value
    )
    assert len(str(error.value).splitlines()) == 2


def test_names_that_the_other_side_lacks_are_suggested_first():
    text = load_error(model(), dict.fromkeys(["0.weight", "0.weigh"]), ["0.bias"], ["0.weigh"], [])
    assert '"0.weigh" (the model has "0.weight")' in text


def test_name_like_no_other_gets_no_suggestion():
    text = load_error(model(), {"zzz": None}, [], ["zzz"], [])
    assert text.endswith('"zzz"')


def test_many_offenders_are_all_listed_but_not_all_compared():
    missing = [f"layer.{i}.weight" for i in range(300)]
    text = load_error(model(), {}, missing, [f"{name}.m" for name in missing], ["a problem"])
    assert text.count("the state dict has") == 20
    assert text.count("\n") == 603
    assert "Missing key(s) in state_dict (300):" in text
    assert text.endswith("a problem")
