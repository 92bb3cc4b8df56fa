"""The message of a failed load helps to find the mistake."""

import flambeau
from flambeau import nn
from flambeau.nn.load_report import load_error


def model():
    return nn.Sequential(nn.ParameterDict({"weight": flambeau.ones(1), "bias": flambeau.ones(1)}))


def test_prefixed_names_point_to_one_another():
    given = ["module.0.weight", "module.0.bias"]
    text = load_error(model(), given, ["0.weight", "0.bias"], given, [])
    assert '"0.weight" (the state dict has "module.0.weight")' in text
    assert '"module.0.bias" (the model has "0.bias")' in text


def test_names_that_the_other_side_lacks_are_suggested_first():
    text = load_error(model(), ["0.weight", "0.weigh"], ["0.bias"], ["0.weigh"], [])
    assert '"0.weigh" (the model has "0.weight")' in text


def test_name_like_no_other_gets_no_suggestion():
    text = load_error(model(), ["zzz"], [], ["zzz"], [])
    assert text.endswith('"zzz"')


def test_many_offenders_are_all_listed_but_not_all_compared():
    missing = [f"layer.{i}.weight" for i in range(300)]
    text = load_error(model(), [], missing, [f"m.{name}" for name in missing], ["a problem"])
    assert text.count("the state dict has") == 20
    assert text.count("\n") == 603
    assert "Missing key(s) in state_dict (300):" in text
    assert text.endswith("a problem")
