"""Saving and loading: what was saved comes back, and what does not fit changes nothing."""

import pickle
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flambeau
from flambeau import nn


class Layer(nn.Module):
    """A parameter, a saved and an unsaved buffer, a plain tensor, and extra state."""

    def __init__(self, value=1.0, size=2):
        super().__init__()
        self.weight = nn.Parameter(flambeau.full((size,), value))
        self.register_buffer("mean", flambeau.full((size,), value))
        self.register_buffer("cache", flambeau.full((size,), value), persistent=False)
        self.plain = flambeau.full((size,), value)
        self.steps = int(value)

    def get_extra_state(self):
        return self.steps

    def set_extra_state(self, state):
        self.steps = state


def model(value=1.0):
    return nn.Sequential(Layer(value), nn.ModuleDict({"inner": Layer(value + 1)}))


def contents(module):
    """Everything that a load might touch, by object and by value."""
    found = {}
    for path, each in module.named_modules():
        for table in (each._parameters, each._buffers, {"plain": getattr(each, "plain", None)}):
            for name, tensor in table.items():
                if tensor is not None:
                    found[path, name] = (
                        id(tensor),
                        tensor.tolist(),
                        tensor.dtype,
                        tensor.requires_grad,
                    )
    return found


@given(
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=2),
    st.booleans(),
    st.booleans(),
)
def test_load_after_save_is_identity(values, assign, through_pickle):
    source = model()
    with flambeau.no_grad():
        for tensor in (*source.parameters(), *source.buffers()):
            tensor.copy_(flambeau.tensor(values))
    source[0].steps = 7
    state = source.state_dict()
    if through_pickle:
        state = pickle.loads(pickle.dumps(state))
    target = model(5.0)
    keys = target.load_state_dict(state, assign=assign)
    assert repr(keys) == "<All keys matched successfully>"
    assert {key: str(value) for key, value in target.state_dict().items()} == {
        key: str(value) for key, value in source.state_dict().items()
    }
    assert target[0].steps == 7
    assert target[0].cache.tolist() == [5.0, 5.0]


def broken(state, change):
    state = OrderedDict(state)
    change(state)
    return state


BREAKS = {
    "missing": lambda state: state.pop("1.inner.mean"),
    "unexpected": lambda state: state.update({"1.inner.meen": flambeau.ones(2)}),
    "shape": lambda state: state.update({"1.inner.mean": flambeau.ones(3)}),
    "complex": lambda state: state.update(
        {"1.inner.mean": flambeau.ones(2, dtype=flambeau.complex64)}
    ),
    "no tensor": lambda state: state.update({"1.inner.mean": 3}),
    "extra state": lambda state: state.pop("1.inner._extra_state"),
}


# Assigning takes over the dtype, so complex values fail only when they are copied.
@pytest.mark.parametrize(
    ("name", "assign"),
    [(name, False) for name in BREAKS] + [(name, True) for name in BREAKS if name != "complex"],
)
def test_failed_load_changes_no_tensor(name, assign):
    target = model(5.0)
    before = contents(target)
    with pytest.raises(RuntimeError, match=r"1\.inner"):
        target.load_state_dict(broken(model().state_dict(), BREAKS[name]), assign=assign)
    assert contents(target) == before


def test_failed_load_undoes_what_user_code_has_written():
    class Greedy(Layer):
        def _load_from_state_dict(self, state_dict, prefix, *others):
            with flambeau.no_grad():
                self.cache.fill_(9.0)
                self.plain.add_(9.0)
                self.weight.requires_grad_(False)
            self.mean = flambeau.full((2,), 9.0)
            self.register_buffer("added", flambeau.ones(1))
            self.weight.data = flambeau.full((5,), 9.0)
            super()._load_from_state_dict(state_dict, prefix, *others)

    target = nn.Sequential(Greedy(), Layer())
    before = contents(target)
    with pytest.raises(RuntimeError):
        target.load_state_dict(nn.Sequential(Layer(), Layer()).state_dict())
    assert contents(target) == before


@pytest.mark.parametrize(
    "register",
    [
        lambda layer, hook: layer.register_load_state_dict_pre_hook(hook),
        lambda layer, hook: layer.register_load_state_dict_post_hook(hook),
    ],
)
def test_load_stopped_by_a_hook_changes_no_tensor(register):
    def fail(*given):
        raise KeyboardInterrupt

    target = model(5.0)
    register(target[1]["inner"], fail)
    before = contents(target)
    with pytest.raises(KeyboardInterrupt):
        target.load_state_dict(model().state_dict())
    assert contents(target) == before


def test_failed_load_keeps_views_and_ties():
    target = nn.Module()
    target.a = nn.Parameter(flambeau.ones(4))
    target.part = nn.Parameter(flambeau.zeros(2))
    target.part.data = target.a.data[:2]
    with pytest.raises(RuntimeError):
        target.load_state_dict({"a": flambeau.zeros(4), "part": flambeau.ones(3)})
    with flambeau.no_grad():
        target.a.mul_(3)
    assert target.part.tolist() == [3.0, 3.0]


def test_message_lists_every_offender():
    state = model().state_dict()
    state["0.wieght"] = state.pop("0.weight")
    state["0.mean"] = flambeau.ones(2, 3)
    state["1.inner.mean"] = [1]
    state["1.inner.weight"] = flambeau.ones(2, dtype=flambeau.complex64)
    with pytest.raises(RuntimeError) as raised:
        model().load_state_dict(state)
    text = str(raised.value)
    for fact in (
        "Sequential",
        'Missing key(s) in state_dict (1):\n\t  "0.weight" (the state dict has "0.wieght")',
        'Unexpected key(s) in state_dict (1):\n\t  "0.wieght" (the model has "0.weight")',
        "size mismatch for 0.mean: the state dict has (2, 3), the model has (2,)",
        "1.inner.mean: the state dict has a list",
        "dtype mismatch for 1.inner.weight: the state dict has flambeau.complex64",
        "the model has flambeau.float32",
    ):
        assert fact in text


def test_extra_state_stays_when_the_keys_are_wrong_before_it():
    target = model(5.0)
    state = model().state_dict()
    del state["0.weight"]
    with pytest.raises(RuntimeError):
        target.load_state_dict(state)
    assert target[0].weight.tolist() == [5.0, 5.0]


def test_real_values_for_a_meta_model_are_not_lost_silently():
    target = nn.Sequential(nn.ParameterList([flambeau.ones(2)])).to("meta")
    given = {"0.0": flambeau.ones(2)}
    with pytest.warns(UserWarning, match=r"0\.0 is on the meta device.*assign=True.*to_empty"):
        target.load_state_dict(given)
    target.load_state_dict(given, assign=True)
    assert target[0][0].tolist() == [1.0, 1.0]


def test_assigning_does_not_stick_to_the_metadata():
    state = model().state_dict()
    model().load_state_dict(state, assign=True)
    target = model(5.0)
    weight = target[0].weight
    target.load_state_dict(state)
    assert target[0].weight is weight


def test_state_dict_shares_the_elements():
    layer = Layer()
    state = layer.state_dict()
    with flambeau.no_grad():
        layer.weight.fill_(3.0)
    assert state["weight"].tolist() == [3.0, 3.0]
    assert type(state["weight"]) is flambeau.Tensor


def test_loading_copies_no_more_than_it_must():
    layer, given = Layer(), flambeau.full((2,), 4.0)
    layer.load_state_dict({"weight": given, "mean": given, "_extra_state": 1})
    assert layer.weight.jax() is given.jax()
    given.fill_(7.0)
    assert layer.weight.tolist() == [4.0, 4.0]


def test_post_hook_that_is_a_bound_method():
    class Hooked(Layer):
        def __init__(self):
            super().__init__()
            self.register_state_dict_post_hook(Hooked.note)

        def note(self, state_dict, prefix, local_metadata):
            state_dict[prefix + "noted"] = local_metadata["version"]

        def method(self, module, state_dict, prefix, local_metadata):
            state_dict[prefix + "method"] = 1

    hooked = Hooked()
    hooked.register_state_dict_post_hook(hooked.method)
    assert {"noted", "method"} <= set(hooked.state_dict())
    with pytest.raises(RuntimeError, match="register_state_dict_post_hook"):
        hooked._register_state_dict_hook(hooked.method)


@pytest.mark.parametrize(
    ("action", "error", "facts"),
    [
        (lambda m: m.load_state_dict([1]), TypeError, ["list"]),
        (lambda m: m.get_extra_state(), RuntimeError, ["Sequential", "get_extra_state()"]),
        (lambda m: m.set_extra_state(1), RuntimeError, ["Sequential", "set_extra_state()"]),
    ],
)
def test_error_says_what_to_do(action, error, facts):
    with pytest.raises(error) as raised:
        action(nn.Sequential())
    for fact in facts:
        assert fact in str(raised.value)


def test_post_hooks_must_return_none():
    layer = Layer()
    layer.register_state_dict_post_hook(lambda *given: 3)
    with pytest.raises(RuntimeError, match=r"must return None, but .* returned a int"):
        layer.state_dict()
    other = Layer()
    other.register_load_state_dict_post_hook(lambda *given: 3)
    with pytest.raises(AssertionError, match="must return None"):
        other.load_state_dict(Layer().state_dict())


def test_uninitialized_tensors_of_ordinary_modules_are_named():
    lazy, ordinary = nn.Module(), nn.Linear(1, 1, bias=False)
    lazy.weight = nn.UninitializedParameter()
    with pytest.raises(RuntimeError, match="weight: the model has an uninitialized tensor"):
        lazy.load_state_dict({"weight": flambeau.ones(1, 1)})
    with pytest.raises(RuntimeError, match="weight: the state dict has an uninitialized tensor"):
        ordinary.load_state_dict({"weight": lazy.weight})


def test_subclass_may_use_any_private_name():
    class Model(nn.Linear):
        def _load_members(self):
            raise AssertionError("not what loading calls")

        _load_member = _check_name = _is_taken = _take_over = saved_members = _load_members

    model = Model(1, 1)
    model.weight = nn.Parameter(flambeau.zeros(1, 1))
    model.load_state_dict(model.state_dict())


@pytest.mark.parametrize(
    "register",
    [
        nn.Module.register_state_dict_pre_hook,
        nn.Module.register_state_dict_post_hook,
        nn.Module.register_load_state_dict_pre_hook,
        nn.Module.register_load_state_dict_post_hook,
    ],
)
def test_hook_that_removes_itself_runs_once(register):
    seen = []

    def once(*given):
        seen.append(len(given))
        handle.remove()

    layer = nn.Linear(1, 1)
    handle = register(layer, once)
    register(layer, lambda *given: None)
    for _ in range(2):
        layer.load_state_dict(layer.state_dict())
    assert len(seen) == 1


@pytest.mark.parametrize("shared", [True, False])
def test_assigned_tied_weights_stay_tied(shared):
    def model():
        layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.BatchNorm1d(2))
        layers[1].weight = layers[0].weight
        layers[2].bias = layers[0].bias
        return layers

    one, other, copied = model(), model(), model()
    state = {name: each.clone() for name, each in one.state_dict().items()}
    if shared:
        state["1.weight"] = state["0.weight"]
    else:
        state["1.weight"] = state["0.weight"] + 1
    assert not any(other.load_state_dict(state, assign=True))
    copied.load_state_dict(state)
    assert other[1].weight is other[0].weight
    assert other[2].bias is other[0].bias
    assert len([*other.parameters()]) == 4
    # Where the given tensors differ, the last one counts, as it does when they are copied.
    for name, each in copied.state_dict().items():
        assert flambeau.equal(each, other.state_dict()[name])
    part = {"0.weight": state["0.weight"] + 2}
    other.load_state_dict(part, assign=True, strict=False)
    assert other[1].weight is other[0].weight
    assert flambeau.equal(other[1].weight, part["0.weight"])
