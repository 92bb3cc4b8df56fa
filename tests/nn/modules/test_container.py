"""Containers of modules behave as the Python containers they are named for."""

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau
from flambeau import nn


class Add(nn.Module):
    """Adds a number, which tells it from the others."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return x + self.number

    def extra_repr(self):
        return f"{self.number}"


def numbers(modules):
    return [module.number for module in modules]


CHANGES = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 9)),
    st.tuples(st.just("extend"), st.lists(st.integers(0, 9), max_size=3)),
    st.tuples(st.just("insert"), st.integers(-6, 6), st.integers(0, 9)),
    st.tuples(st.just("pop"), st.integers(-6, 6)),
    st.tuples(st.just("set"), st.integers(-6, 6), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.slices(6)),
)


def change(container, action, wrap):
    """The same change of a list and of a container; gives what it raised or popped."""
    kind, *given_values = action
    try:
        if kind == "append":
            container.append(wrap(given_values[0]))
        elif kind == "extend":
            container.extend([wrap(each) for each in given_values[0]])
        elif kind == "insert":
            container.insert(given_values[0], wrap(given_values[1]))
        elif kind == "pop":
            return container.pop(given_values[0])
        elif kind == "set":
            container[given_values[0]] = wrap(given_values[1])
        else:
            del container[given_values[0]]
    except IndexError:
        return IndexError
    return None


@given(st.lists(CHANGES, max_size=8))
def test_module_list_follows_a_list(actions):
    modules, plain = nn.ModuleList(), []
    for action in actions:
        popped, expected = change(modules, action, Add), change(plain, action, int)
        assert getattr(popped, "number", popped) == expected
        assert numbers(modules) == plain
        assert list(modules._modules) == [str(i) for i in range(len(plain))]


@given(st.lists(st.integers(0, 9), max_size=5), st.slices(5))
def test_slices_follow_a_list(values, part):
    for kind in (nn.ModuleList, lambda modules: nn.Sequential(*modules)):
        modules = kind([Add(each) for each in values])
        assert numbers(modules[part]) == values[part]
        assert type(modules[part]) is type(modules)


def test_sequential_inserts_only_where_it_can():
    chain = nn.Sequential(Add(1))
    assert chain.insert(-1, Add(0)) is chain
    assert numbers(chain) == [0, 1]
    with pytest.raises(IndexError, match="3 is out of range for a Sequential of 2"):
        chain.insert(3, Add(1))
    with pytest.raises(AssertionError, match="int"):
        chain.insert(0, 3)


def test_sequential_runs_its_modules_and_can_be_added_and_repeated():
    chain = nn.Sequential(Add(1), Add(2))
    assert chain(0) == 3
    assert (chain + chain)(0) == 6
    assert (chain * 3)(0) == 9
    assert (2 * chain)(0) == 6
    chain *= 2
    assert numbers(chain) == [1, 2, 1, 2]
    assert chain[0] is chain[2]


def test_sequential_added_to_itself():
    chain = nn.Sequential(Add(1))
    chain += chain
    assert numbers(chain) == [1, 1]


def test_list_extended_by_itself():
    modules = nn.ModuleList([Add(1)])
    modules.extend(modules)
    assert numbers(modules) == [1, 1]


def test_repr_of_a_list_folds_runs_of_equal_modules():
    modules = nn.ModuleList([Add(1), Add(1), Add(2), nn.Sequential(Add(3)), nn.Sequential(Add(3))])
    assert repr(modules) == (
        "ModuleList(\n  (0-1): 2 x Add(1)\n  (2): Add(2)\n"
        "  (3-4): 2 x Sequential(\n    (0): Add(3)\n  )\n)"
    )


@pytest.mark.parametrize(
    ("action", "error", "facts"),
    [
        (lambda: nn.Sequential()[0], IndexError, ["0", "Sequential of 0"]),
        (lambda: nn.ModuleList([Add(1)])[5], IndexError, ["5", "ModuleList of 1"]),
        (lambda: nn.ModuleList()["a"], TypeError, ["str"]),
        (lambda: nn.ModuleList(3), TypeError, ["ModuleList.extend", "int"]),
        (lambda: nn.Sequential(3), TypeError, ["'0'", "int"]),
        (lambda: nn.Sequential() * 0, ValueError, ["positive", "0"]),
        (lambda: nn.Sequential() * 1.5, TypeError, ["float"]),
        (lambda: operator.add(nn.Sequential(), [Add(1)]), ValueError, ["list"]),
        (lambda: nn.ModuleDict(3), TypeError, ["ModuleDict.update", "int"]),
        (lambda: nn.ModuleDict([3]), TypeError, ["element 0", "int"]),
        (lambda: nn.ModuleDict([("a", Add(1), 1)]), ValueError, ["element 0", "3 values"]),
        (lambda: nn.ModuleDict({"pop": Add(1)}), KeyError, ["'pop'", "ModuleDict"]),
        (lambda: nn.ModuleDict().pop("a"), KeyError, ["a"]),
        (lambda: nn.ModuleList()(1), NotImplementedError, ["ModuleList"]),
    ],
)
def test_error_names_the_facts(action, error, facts):
    with pytest.raises(error) as raised:
        action()
    for fact in facts:
        assert fact in str(raised.value)


def test_module_dict_follows_a_dictionary():
    modules = nn.ModuleDict({"b": Add(1), "a": Add(2)})
    modules["c"] = Add(3)
    modules.update([("a", Add(4))])
    assert [(key, module.number) for key, module in modules.items()] == [
        ("b", 1),
        ("a", 4),
        ("c", 3),
    ]
    assert modules.pop("b").number == 1
    del modules["c"]
    assert list(modules) == list(modules.keys()) == ["a"]
    assert numbers(modules.values()) == [4]
    assert "a" in modules
    modules.clear()
    assert len(modules) == 0


def test_container_is_deprecated():
    with pytest.warns(FutureWarning, match="nn.Container is deprecated"):
        container = nn.Container(a=Add(1))
    assert container.a(flambeau.zeros(1)).item() == 1
