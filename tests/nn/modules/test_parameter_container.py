"""Containers of parameters behave as the Python containers they are named for."""

from collections import OrderedDict

import pytest

import flambeau
from flambeau import nn


def test_list_turns_tensors_into_parameters_and_keeps_the_rest():
    values = nn.ParameterList([flambeau.ones(1), nn.Parameter(flambeau.zeros(1)), "text"])
    assert [isinstance(each, nn.Parameter) for each in values] == [True, True, False]
    assert [name for name, _ in values.named_parameters()] == ["0", "1"]
    assert len(values[1:]) == 2
    assert type(values[1:]) is nn.ParameterList
    values += [flambeau.ones(2)]
    values[-1] = flambeau.zeros(3)
    assert values[3].tolist() == [0.0, 0.0, 0.0]
    assert [name for name in dir(values) if name.isdigit()] == []


def test_list_extended_by_itself():
    values = nn.ParameterList([flambeau.ones(1)])
    values.extend(values)
    assert len(values) == 2
    assert values[0] is values[1]


def test_dictionary_keeps_its_own_order_of_keys():
    values = nn.ParameterDict(OrderedDict([("b", flambeau.ones(1)), ("a", 3)]))
    assert list(values) == ["b", "a"]
    assert list(reversed(values)) == ["a", "b"]
    assert dict(values.items())["a"] == 3
    assert values.popitem() == ("a", 3)
    assert values.setdefault("c", 5) == 5
    assert values.get("x", 7) == 7
    assert list(values.keys()) == ["b", "c"]


def test_dictionaries_merge():
    a, b = nn.ParameterDict({"x": 1, "y": 2}), nn.ParameterDict({"y": 3, "z": 4})
    assert dict((a | b).items()) == {"x": 1, "y": 3, "z": 4}
    a |= b
    assert dict(a.items()) == {"x": 1, "y": 3, "z": 4}
    assert dict(a.fromkeys(["k"], 0).items()) == {"k": 0}
    a.clear()
    assert len(a) == 0


def test_refused_key_leaves_the_dictionary_as_it_was():
    values = nn.ParameterDict({"x": 1})
    with pytest.raises(TypeError, match="strings, but got a int"):
        values[3] = 4
    with pytest.raises(TypeError, match="strings"):
        values.update({4: 5})
    assert list(values) == ["x"]


def test_repr_tells_types_and_sizes():
    assert repr(nn.ParameterList([flambeau.ones(2, 3), 5])) == (
        "ParameterList(\n"
        "    (0): Parameter containing: [flambeau.float32 of size 2x3]\n"
        "    (1): Object of type: int\n)"
    )
    assert repr(nn.ParameterDict({"a": flambeau.ones(1)})) == (
        "ParameterDict(  (a): Parameter containing: [flambeau.FloatTensor of size 1])"
    )


@pytest.mark.parametrize(
    ("action", "error", "facts"),
    [
        (lambda: nn.ParameterList()(1), RuntimeError, ["ParameterList"]),
        (lambda: nn.ParameterDict()(1), RuntimeError, ["ParameterDict"]),
        (lambda: nn.ParameterList([1])[1], IndexError, ["1", "ParameterList of 1"]),
        (lambda: nn.ParameterList(flambeau.ones(2)), TypeError, ["extend", "Tensor"]),
        (lambda: nn.ParameterList(3), TypeError, ["extend", "int"]),
        (lambda: nn.ParameterDict(3), TypeError, ["ParameterDict.update", "int"]),
        (lambda: nn.ParameterDict([("a",)]), ValueError, ["element 0", "1 values"]),
        (lambda: nn.ParameterDict().popitem(), KeyError, ["empty"]),
        (lambda: nn.ParameterDict()["a"], AttributeError, ["ParameterDict", "'a'"]),
    ],
)
def test_error_names_the_facts(action, error, facts):
    with pytest.raises(error) as raised:
        action()
    for fact in facts:
        assert fact in str(raised.value)
