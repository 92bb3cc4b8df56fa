"""A module keeps its members apart, and says what is wrong with those that it refuses."""

import copy
import functools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau
from flambeau import nn


class Scale(nn.Module):
    """One parameter."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(flambeau.ones(2))

    def forward(self, x):
        return x * self.weight


VALUES = {
    "plain": lambda: 3,
    "tensor": lambda: flambeau.ones(1),
    "none": lambda: None,
    "parameter": lambda: nn.Parameter(flambeau.ones(1)),
    "buffer": lambda: nn.Buffer(flambeau.ones(1)),
    "unsaved buffer": lambda: nn.Buffer(flambeau.ones(1), persistent=False),
    "module": Scale,
    "delete": None,
}


def places(module, name):
    tables = (module.__dict__, module._parameters, module._buffers, module._modules)
    return sum(name in table for table in tables)


@given(st.lists(st.sampled_from(sorted(VALUES)), max_size=8))
def test_name_stands_in_at_most_one_place(kinds):
    module = nn.Module()
    for kind in kinds:
        known = places(module, "x")
        before = (dict(module.__dict__), dict(module._parameters), dict(module._buffers))
        try:
            if kind == "delete":
                del module.x
            else:
                module.x = VALUES[kind]()
        except (TypeError, KeyError, AttributeError):
            # A refused assignment changes nothing.
            after = (dict(module.__dict__), dict(module._parameters), dict(module._buffers))
            assert [list(each) for each in after] == [list(each) for each in before]
            assert places(module, "x") == known
        assert places(module, "x") <= 1
        assert hasattr(module, "x") == (places(module, "x") == 1)
        assert module._non_persistent_buffers_set <= set(module._buffers)


def test_refused_parameter_leaves_the_old_member():
    model = Scale()
    result = (model.weight * 2).as_subclass(nn.Parameter)
    model.other = 3
    model.register_buffer("mean", flambeau.zeros(1), persistent=False)
    for name, old in (("weight", model.weight), ("other", 3), ("mean", model.mean)):
        with pytest.raises(ValueError, match=f"'{name}' must be a leaf"):
            setattr(model, name, result)
        assert getattr(model, name) is old
    assert model._non_persistent_buffers_set == {"mean"}


def test_failing_registration_hook_leaves_the_old_member():
    def refuse(module, name, child):
        raise ValueError("no")

    model = nn.Module()
    model.child = 3
    handle = nn.modules.module.register_module_module_registration_hook(refuse)
    with handle, pytest.raises(ValueError, match="no"):
        model.child = Scale()
    assert model.child == 3


@pytest.mark.parametrize(
    ("action", "error", "facts"),
    [
        (lambda m: m.register_parameter("w", flambeau.ones(1)), TypeError, ["'w'", "Tensor"]),
        (lambda m: m.register_parameter("a.b", None), KeyError, ["dot", "a.b"]),
        (lambda m: m.register_parameter("", None), KeyError, ["empty"]),
        (lambda m: m.register_parameter(5, None), TypeError, ["string", "int"]),
        (lambda m: m.register_parameter("forward", None), KeyError, ["'forward'", "Scale"]),
        (lambda m: m.register_buffer("b", [1]), TypeError, ["'b'", "list"]),
        (lambda m: m.register_buffer("weight", None), KeyError, ["'weight'", "Scale"]),
        (lambda m: m.add_module("c", 5), TypeError, ["'c'", "int"]),
        (lambda m: m.add_module("weight", None), KeyError, ["'weight'", "Scale"]),
        (lambda m: setattr(m, "weight", 5), TypeError, ["'weight'", "int", "Parameter"]),
        (lambda m: m.missing, AttributeError, ["'Scale'", "'missing'"]),
        (lambda m: delattr(m, "missing"), AttributeError, ["missing"]),
        (lambda m: nn.Module(3), TypeError, ["Module", "1 positional", "call_super_init"]),
        (lambda m: nn.Module(size=3), TypeError, ["'size'", "call_super_init"]),
    ],
)
def test_error_names_the_facts(action, error, facts):
    with pytest.raises(error) as raised:
        action(Scale())
    for fact in facts:
        assert fact in str(raised.value)


@pytest.mark.parametrize(
    "member",
    [lambda: nn.Parameter(flambeau.ones(1)), Scale, lambda: nn.Buffer(flambeau.ones(1))],
)
def test_member_before_init_says_what_to_call(member):
    class Early(nn.Module):
        def __init__(self):
            self.member = member()

    with pytest.raises(AttributeError, match=r"'member' .* super\(\).__init__\(\) .* Early"):
        Early()


def test_register_buffer_overridden_without_persistent():
    class Old(nn.Module):
        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor)

    module = Old()
    module.mean = nn.Buffer(flambeau.ones(1))
    assert list(module._buffers) == ["mean"]
    with pytest.raises(RuntimeError, match=r"Old.register_buffer\(\) .* 'other'"):
        module.other = nn.Buffer(flambeau.ones(1), persistent=False)


def test_register_buffer_overridden_with_persistent():
    class New(nn.Module):
        def register_buffer(self, name, tensor, persistent=True):
            super().register_buffer(name, tensor, persistent)

    module = New()
    module.mean = nn.Buffer(flambeau.ones(1), persistent=False)
    assert module._non_persistent_buffers_set == {"mean"}


def test_dir_names_every_member_once():
    model = Scale()
    model.child = Scale()
    model.add_module("0", Scale())
    names = dir(model)
    assert {"weight", "child", "forward", "training"} <= set(names)
    assert "0" not in names
    assert len(names) == len(set(names))


def test_repr_folds_nothing_and_indents_children():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = Scale()
            self.b = nn.Sequential(Scale())

        def extra_repr(self):
            return "size=3"

    assert repr(Outer()) == (
        "Outer(\n  size=3\n  (a): Scale()\n  (b): Sequential(\n    (0): Scale()\n  )\n)"
    )


def test_copies_of_a_module():
    model = nn.Sequential(Scale())
    deep, shallow = copy.deepcopy(model), copy.copy(model)
    with flambeau.no_grad():
        model[0].weight.add_(1)
    assert deep[0].weight.tolist() == [1.0, 1.0]
    assert shallow[0] is model[0]


def test_pickle_drops_the_compiled_call():
    model = nn.Sequential()
    model._compiled_call_impl = lambda *args: 1
    other = pickle.loads(pickle.dumps(model))
    assert other._compiled_call_impl is None


def test_state_of_an_older_version_gets_the_missing_tables():
    model = nn.Sequential()
    state = {"training": False, "_parameters": {}, "_buffers": {}, "_modules": {"0": Scale()}}
    model.__setstate__(state)
    assert model(flambeau.ones(2)).tolist() == [1.0, 1.0]
    model._modules["1"] = Scale()
    assert not model.training
    assert len(model) == 2
    assert type(model._forward_hooks) is type(nn.Module()._forward_hooks)


def test_a_module_shows_the_attributes_that_its_class_names():
    class Layer(nn.Module):
        _repr_attributes = ("*size", "mode!r", "bias?", ("scale", 1.0))

        def __init__(self, scale):
            super().__init__()
            self.size, self.mode, self.scale, self.bias = (2, 3), "sum", scale, None

    assert repr(Layer(1.0)) == "Layer((2, 3), mode='sum', bias=False)"
    assert repr(Layer(2.0)) == "Layer((2, 3), mode='sum', bias=False, scale=2.0)"


def test_a_value_of_the_class_does_not_hide_a_submodule():
    class Projecting(nn.Module):
        proj = None
        act = nn.ReLU()

        @property
        def head(self):
            return self._modules["head"]

    module = Projecting()
    for name in ("proj", "act"):
        with pytest.raises(KeyError, match=f"attribute '{name}' already exists in Projecting"):
            setattr(module, name, nn.Linear(1, 1))
    assert not [*module.children()]
    module.head = nn.Linear(1, 1)
    assert module.head is next(module.children())


def test_an_error_inside_a_property_names_the_attribute_that_is_missing():
    class Sized(nn.Module):
        @property
        def width(self):
            return self.weigth.shape[0]

        @functools.cached_property
        def height(self):
            return self.weigth.shape[1]

    for name in ("width", "height"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'.*'weigth'"):
            getattr(Sized(), name)
        assert not hasattr(Sized(), name)
    for name in ("missing", "mro"):
        with pytest.raises(AttributeError, match=f"'Sized' object has no attribute '{name}'"):
            getattr(Sized(), name)


@pytest.mark.parametrize("name", ["type", "keys", "training", "update"])
def test_a_dictionary_of_modules_refuses_names_of_its_attributes(name):
    modules = nn.ModuleDict()
    for add in (modules.__setitem__, modules.add_module, lambda n, m: modules.update({n: m})):
        with pytest.raises(KeyError, match=f"attribute '{name}' already exists in ModuleDict"):
            add(name, nn.ReLU())
    assert not modules
