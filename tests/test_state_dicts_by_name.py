"""State dicts of models and optimizers by name, and modules wrapped for recomputation."""

import copy

import pytest

import flambeau
from flambeau import nn
from flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from flambeau.distributed.elastic.multiprocessing.errors import record
from flambeau.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    enable_wrap,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)


def a_model():
    return nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))


def trained(model, optimizer, steps=2):
    for _ in range(steps):
        optimizer.zero_grad()
        model(flambeau.ones(2, 3)).sum().backward()
        optimizer.step()


def numbers(model):
    return [each.tolist() for each in model.parameters()]


def test_a_training_goes_on_from_state_dicts_by_name():
    model = a_model()
    optimizer = flambeau.optim.Adam(model.parameters(), lr=0.1)
    trained(model, optimizer)
    own, state = get_state_dict(model, optimizer)
    # Training goes on with the tensors themselves.
    own, state = copy.deepcopy((own, state))
    assert state["param_groups"][0]["params"] == [name for name, _ in model.named_parameters()]
    trained(model, optimizer)

    other = a_model()
    # The parameters in another order, in two groups.
    (w0, b0, w1, b1) = other.parameters()
    theirs = flambeau.optim.Adam([{"params": [b1, w0]}, {"params": [w1, b0]}], lr=0.5)
    set_state_dict(other, theirs, model_state_dict=own, optim_state_dict=state)
    assert theirs.param_groups[1]["lr"] == 0.1
    trained(other, theirs)
    assert numbers(other) == numbers(model)


def test_several_optimizers_have_one_state_dict():
    model = a_model()
    several = [flambeau.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in model[::2]]
    for each in several:
        trained(model, each)
    state = get_optimizer_state_dict(model, several)
    assert {*state["state"]} == {"0.weight", "0.bias", "2.weight", "2.bias"}
    set_optimizer_state_dict(model, several, state)
    assert "momentum_buffer" in several[1].state[model[2].weight]


def test_frozen_parameters_can_be_left_out():
    model = a_model()
    model[0].requires_grad_(False)
    found = get_model_state_dict(model, options=StateDictOptions(ignore_frozen_params=True))
    assert {*found} == {"2.weight", "2.bias"}


def test_state_that_does_not_fit_is_refused():
    model, other = a_model(), nn.Linear(3, 3)
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match=r"shape \[2, 3\] of SGD is none of the model's"):
        get_optimizer_state_dict(other, optimizer)
    with pytest.raises(KeyError, match=r"no group of the state dict has '0\.weight'"):
        set_optimizer_state_dict(model, optimizer, {"state": {}, "param_groups": []})
    before, zeros = numbers(model), {k: v * 0 for k, v in model.state_dict().items()}
    with pytest.raises(KeyError, match="no group"):
        set_state_dict(
            model, optimizer, model_state_dict=zeros,
            optim_state_dict={"state": {}, "param_groups": []},
        )  # fmt: skip
    assert numbers(model) == before
    with pytest.raises(NotImplementedError, match="flatten_optimizer_state_dict"):
        StateDictOptions(flatten_optimizer_state_dict=True)


def test_a_wrapped_module_computes_again_and_keeps_its_names():
    model = a_model()
    expected = model.state_dict()
    x = flambeau.ones(2, 3)
    model(x).sum().backward()
    gradients = [each.grad.tolist() for each in model.parameters()]
    model.zero_grad()
    apply_activation_checkpointing(model, check_fn=lambda each: isinstance(each, nn.Linear))
    assert [type(each) for each in model] == [CheckpointWrapper, nn.Tanh, CheckpointWrapper]
    assert [*model.state_dict()] == [*expected]
    assert [name for name, _ in model[0].named_parameters()] == ["weight", "bias"]
    assert model[0].weight is next(iter(model.parameters()))
    optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
    state = get_optimizer_state_dict(model, optimizer)
    assert state["param_groups"][0]["params"] == [*expected]
    model(x).sum().backward()
    assert [each.grad.tolist() for each in model.parameters()] == gradients
    start = {name: each + 1 for name, each in expected.items()}
    assert not any(model.load_state_dict(start))
    assert model[2].bias.tolist() == start["2.bias"].tolist()


def test_a_wrapper_takes_another_function():
    calls = []

    def watched(module, *args):
        calls.append(module)
        return module(*args)

    layer = nn.Linear(3, 2)
    checkpoint_wrapper(layer, checkpoint_fn=watched)(flambeau.ones(1, 3))
    assert calls == [layer]


def test_rules_name_modules():
    layer, act = nn.Linear(3, 2), nn.Tanh()
    for rule in (
        ModuleWrapPolicy([nn.Linear]),
        CustomPolicy(lambda module: isinstance(module, nn.Linear)),
        lambda module, recurse: transformer_auto_wrap_policy(module, recurse, 0, {nn.Linear}),
        lambda module, recurse: size_based_auto_wrap_policy(
            module, recurse, sum(each.numel() for each in module.parameters()), 5
        ),
    ):
        assert rule(layer, False)
        assert not rule(act, False)
    assert wrap(layer) is layer
    with enable_wrap(wrapper_cls=nn.Sequential):
        assert type(wrap(layer)) is nn.Sequential
    assert wrap(layer) is layer


def test_names_of_launchers():
    assert record(a_model) is a_model
