"""Walking a tree of modules and finding members by path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau
from flambeau import nn


class Layer(nn.Module):
    """A parameter and a buffer."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.ones(1))
        self.register_buffer("mean", flambeau.ones(1))
        self.size = 3


class Block(nn.Module):
    """Two layers, of which the second has two names."""

    def __init__(self):
        super().__init__()
        self.first = Layer()
        self.second = Layer()
        self.again = self.second
        self.nothing = None
        self.register_module("empty", None)


def test_parents_come_before_children_in_order_of_registration():
    paths = [path for path, _ in nn.Sequential(Block(), Layer()).named_modules(prefix="top")]
    assert paths == ["top", "top.0", "top.0.first", "top.0.second", "top.1"]


def test_shared_members_come_once_unless_asked_for():
    block = Block()
    assert [name for name, _ in block.named_children()] == ["first", "second"]
    assert [path for path, _ in block.named_parameters()] == ["first.weight", "second.weight"]
    assert [path for path, _ in block.named_buffers(remove_duplicate=False)] == [
        "first.mean",
        "second.mean",
        "again.mean",
    ]


def test_cycle_ends():
    block = Block()
    block.first.parent = block
    assert len(list(block.modules())) == 3


def test_very_deep_tree_does_not_overflow_the_stack():
    model = innermost = nn.Sequential()
    for _ in range(3000):
        innermost.append(nn.Sequential())
        innermost = innermost[0]
    innermost.append(Layer())
    ((path, _),) = model.named_parameters()
    assert path == "0." * 3001 + "weight"


@st.composite
def trees(draw):
    """A tree of containers, some of whose modules appear several times."""
    made = [Layer()]
    for _ in range(draw(st.integers(1, 6))):
        children = draw(st.lists(st.sampled_from(made), max_size=3))
        made.append(nn.ModuleList([*children, Layer()]))
    return made[-1]


@given(trees())
def test_every_path_leads_to_its_member(tree):
    for path, module in tree.named_modules(remove_duplicate=False):
        assert tree.get_submodule(path) is module
    for path, parameter in tree.named_parameters(remove_duplicate=False):
        assert tree.get_parameter(path) is parameter
    for path, buffer in tree.named_buffers(remove_duplicate=False):
        assert tree.get_buffer(path) is buffer
    assert len(set(tree.modules())) == len(list(tree.modules()))


def test_apply_visits_children_first_and_gives_the_module():
    block, seen = Block(), []
    assert block.apply(lambda module: seen.append(type(module).__name__)) is block
    assert seen == ["Layer", "Layer", "Block"]


@pytest.mark.parametrize(
    ("action", "facts"),
    [
        (lambda m: m.get_submodule("first.gone"), ["Layer", "'gone'", "'first.gone'"]),
        (lambda m: m.get_submodule("first.size"), ["'size'", "'first.size'", "int"]),
        (lambda m: m.get_parameter("first.mean"), ["'first.mean'", "not a parameter", "Tensor"]),
        (lambda m: m.get_buffer("first.weight"), ["'first.weight'", "not a buffer", "Parameter"]),
        (lambda m: m.set_submodule("first.size", Layer()), ["'first.size'", "int"]),
        (lambda m: m.set_submodule("first.x", Layer(), strict=True), ["Layer", "'x'"]),
    ],
)
def test_error_names_the_path(action, facts):
    with pytest.raises(AttributeError) as raised:
        action(Block())
    for fact in facts:
        assert fact in str(raised.value)


def test_set_submodule_refuses_before_it_changes_anything():
    block = Block()
    before = dict(block._modules)
    for path, module in (("", Layer()), ("first", 3), ("gone.x", Layer())):
        with pytest.raises((ValueError, AttributeError)):
            block.set_submodule(path, module)
    assert block._modules == before
