"""Groups, state, hooks, saving and loading: what all optimizers share."""

import copy
import pickle

import numpy as np
import pytest

import flambeau
from flambeau import nn, optim
from flambeau.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    required,
)


def leaf(*shape, fill=1.0):
    return flambeau.full(shape, fill, requires_grad=True)


def give_grads(*params, fill=1.0):
    for param in params:
        param.grad = flambeau.full(param.shape, fill)


def trained(cls=optim.Adam, count=2, steps=3, **options):
    params = [leaf(2, fill=float(i)) for i in range(count)]
    optimizer = cls(params, **options)
    for _ in range(steps):
        give_grads(*params)
        optimizer.step()
    return params, optimizer


class HandWritten(Optimizer):
    """Gradient descent written with tensor operators, as a user of PyTorch writes it."""

    def __init__(self, params, lr=required, decay=0.5):
        super().__init__(params, {"lr": lr, "decay": decay})

    @flambeau.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with flambeau.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                state = self.state[param]
                if not state:
                    state["average"] = flambeau.zeros_like(param)
                state["average"].mul_(group["decay"]).add_(param.grad)
                param.sub_(state["average"] * group["lr"])
        return loss


# Construction and groups


def test_a_single_tensor_is_refused():
    with pytest.raises(TypeError, match="iterable of tensors"):
        optim.SGD(leaf(2))


@pytest.mark.parametrize("params", [None, 3, flambeau.nn.Linear])
def test_what_is_no_iterable_is_refused(params):
    with pytest.raises(TypeError, match=r"takes an iterable of tensors.*got a"):
        optim.SGD(params)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("SGD", {"lr": "a"}, "lr must be a number, got str: 'a'"),
        ("SGD", {"momentum": None}, "momentum must be a number, got NoneType"),
        ("Adam", {"betas": (0.9, "a")}, "index 1 must be a number, got str"),
    ],
)
def test_numbers_of_other_types_are_refused_by_name(name, options, message):
    with pytest.raises(TypeError, match=message):
        getattr(optim, name)([leaf(2)], **options)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Rprop", {"etas": (0.5,)}),
        ("Rprop", {"step_sizes": (1e-6, 1.0, 50.0)}),
        ("Adafactor", {"eps": (None, 1e-3, 1e-3)}),
    ],
)
def test_pairs_are_counted(name, options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be two numbers"):
        getattr(optim, name)([leaf(2)], **options)


@pytest.mark.parametrize("size", [0, -1, 1.5, None])
def test_lbfgs_remembers_at_least_one_change(size):
    with pytest.raises(ValueError, match="history_size must be a positive int"):
        optim.LBFGS([leaf(2)], history_size=size)


def test_no_parameters_are_refused():
    with pytest.raises(ValueError, match="empty list of parameters"):
        optim.SGD([])


def test_something_else_than_a_tensor_is_refused():
    with pytest.raises(TypeError, match="parameter 1 of the group is a float"):
        optim.SGD([leaf(2), 3.0])


def test_a_result_of_an_operator_is_refused():
    with pytest.raises(ValueError, match="non-leaf"):
        optim.SGD([leaf(2) * 2])


def test_a_set_is_refused_since_it_has_no_order():
    with pytest.raises(TypeError, match="order"):
        optim.SGD([{"params": {leaf(2), leaf(2)}}])


def test_a_generator_of_parameters_is_taken():
    assert len(optim.SGD(nn.Linear(2, 3).parameters()).param_groups[0]["params"]) == 2


def test_a_parameter_twice_in_a_group_is_warned_about_and_updated_twice():
    param = leaf(2)
    with pytest.warns(UserWarning, match="more than once"):
        optimizer = optim.SGD([param, param], lr=0.5)
    give_grads(param)
    optimizer.step()
    assert param.tolist() == [0.0, 0.0]


def test_a_parameter_in_two_groups_is_refused():
    param = leaf(2)
    with pytest.raises(ValueError, match="more than one parameter group"):
        optim.SGD([{"params": [param]}, {"params": [leaf(1), param]}])


def test_a_missing_required_option_is_named():
    with pytest.raises(ValueError, match="'lr'"):
        HandWritten([leaf(2)])
    assert HandWritten([{"params": [leaf(2)], "lr": 0.1}]).param_groups[0]["lr"] == 0.1


def test_options_of_a_group_go_before_the_defaults():
    first, second = leaf(2), leaf(2)
    groups = [{"params": first, "lr": 0.5, "label": "mine"}, {"params": [second]}]
    optimizer = optim.SGD(groups, lr=0.25, momentum=0.0)
    give_grads(first, second)
    optimizer.step()
    assert (first.tolist(), second.tolist()) == ([0.5, 0.5], [0.75, 0.75])
    assert optimizer.param_groups[0]["label"] == "mine"
    assert optimizer.defaults["lr"] == 0.25


def test_named_parameters_keep_their_names():
    model = nn.Linear(2, 3)
    optimizer = optim.SGD(model.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.param_groups[0]["params"][0] is model.weight
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_names_for_some_parameters_only_are_refused():
    with pytest.raises(ValueError, match="1 of 2 have none"):
        optim.SGD([("weight", leaf(2)), leaf(2)])
    optimizer = optim.SGD([("weight", leaf(2))])
    with pytest.raises(ValueError, match="without names"):
        optimizer.add_param_group({"params": [leaf(2)]})


def test_an_added_group_is_trained():
    first, second = leaf(2), leaf(2)
    optimizer = optim.SGD([first], lr=0.5)
    give_grads(first, second)
    optimizer.step()
    group = {"params": second, "lr": 0.25}
    optimizer.add_param_group(group)
    assert group["params"] == [second]
    assert group["momentum"] == 0
    optimizer.step()
    assert (first.tolist(), second.tolist()) == ([0.0, 0.0], [0.75, 0.75])


def test_a_refused_group_changes_nothing():
    optimizer = optim.SGD([leaf(2)])
    group = {"params": iter([leaf(2), 3])}
    with pytest.raises(TypeError):
        optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1
    assert list(group) == ["params"]
    with pytest.raises(TypeError, match="dict"):
        optimizer.add_param_group([leaf(2)])


def test_repr_lists_the_options_of_each_group():
    optimizer = optim.Rprop([{"params": leaf(1), "lr": 0.5}, {"params": leaf(1)}])
    assert repr(optimizer).splitlines()[:3] == [
        "Rprop (", "Parameter Group 0", "    capturable: False",
    ]  # fmt: skip
    assert "Parameter Group 1" in repr(optimizer)
    assert repr(optimizer).endswith("\n)")


# Steps


def test_the_base_class_has_no_step():
    with pytest.raises(NotImplementedError, match="Optimizer"):
        Optimizer([leaf(2)], {}).step()


def test_a_closure_is_called_with_gradients_and_its_loss_returned():
    param = leaf(2)
    optimizer = optim.SGD([param], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = param.sum()
        loss.backward()
        return loss

    with flambeau.no_grad():
        assert optimizer.step(closure).item() == 2.0
    assert param.tolist() == [0.5, 0.5]
    assert optimizer.step() is None


def test_zero_grad_removes_gradients_or_fills_them():
    params = [leaf(2), leaf(3)]
    optimizer = optim.SGD(params)
    give_grads(params[0])
    before = params[0].grad
    optimizer.zero_grad(set_to_none=False)
    assert params[0].grad is before
    assert before.tolist() == [0.0, 0.0]
    assert params[1].grad is None
    optimizer.zero_grad()
    assert params[0].grad is None


def test_zero_grad_takes_a_kept_graph_off():
    param = leaf(2)
    (param**2).sum().backward(create_graph=True)
    assert param.grad.requires_grad
    optim.SGD([param]).zero_grad(set_to_none=False)
    assert not param.grad.requires_grad
    assert param.grad.tolist() == [0.0, 0.0]


def test_a_step_changes_parameters_in_place():
    param = leaf(2)
    view, version = param.detach(), param._version
    optimizer = optim.SGD([param], lr=0.5)
    give_grads(param)
    optimizer.step()
    assert view.tolist() == [0.5, 0.5]
    assert param._version > version
    assert param.is_leaf
    assert param.requires_grad


# Hooks


def test_step_hooks_run_in_order_and_can_replace_arguments():
    param = leaf(2)
    optimizer = optim.SGD([param], lr=0.5)
    calls = []

    def closure():
        calls.append("closure")
        return 7

    def after(opt, args, kwargs):
        assert args[0] is opt is optimizer
        calls.append(("post", args[1:]))

    handles = [
        register_optimizer_step_pre_hook(lambda *each: calls.append("everybody's pre")),
        optimizer.register_step_pre_hook(lambda opt, args, kwargs: ((opt, closure), {})),
        optimizer.register_step_post_hook(after),
        register_optimizer_step_post_hook(lambda *each: calls.append("everybody's post")),
    ]
    assert optimizer.step() == 7
    assert calls == ["everybody's pre", "closure", ("post", (closure,)), "everybody's post"]
    for handle in handles:
        handle.remove()
    assert optimizer.step() is None
    assert len(calls) == 4


def test_a_wrong_result_of_a_pre_hook_is_an_error():
    optimizer = optim.SGD([leaf(2)])
    optimizer.register_step_pre_hook(lambda *each: 3)
    with pytest.raises(RuntimeError, match="got 3"):
        optimizer.step()


def test_a_step_that_calls_its_superclass_is_one_step():
    calls = []

    class Logged(optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    optimizer = Logged([leaf(2)])
    optimizer.register_step_post_hook(lambda *each: calls.append(1))
    optimizer.step()
    optimizer.step()
    assert calls == [1, 1]


def test_state_dict_hooks():
    _, optimizer = trained(optim.SGD, momentum=0.9)
    calls = []
    optimizer.register_state_dict_pre_hook(lambda opt: calls.append("second"))
    optimizer.register_state_dict_pre_hook(lambda opt: calls.append("first"), prepend=True)
    optimizer.register_state_dict_post_hook(lambda opt, state: {**state, "extra": 1})
    state = optimizer.state_dict()
    assert calls == ["first", "second"]
    assert state["extra"] == 1
    optimizer.register_load_state_dict_pre_hook(
        lambda opt, given: {**given, "param_groups": [{**given["param_groups"][0], "lr": 0.75}]}
    )
    optimizer.register_load_state_dict_post_hook(
        lambda opt: calls.append(opt.param_groups[0]["lr"])
    )
    optimizer.load_state_dict(state)
    assert calls[-1] == 0.75
    assert state["param_groups"][0]["lr"] != 0.75


# Saving and loading


def test_the_layout_of_a_state_dict():
    groups = [{"params": [leaf(2), leaf(2)]}, {"params": leaf(2), "lr": 0.5}]
    optimizer = optim.SGD(groups, lr=0.1, momentum=0.9)
    params = [param for group in optimizer.param_groups for param in group["params"]]
    give_grads(params[2])
    optimizer.step()
    state = optimizer.state_dict()
    assert [group["params"] for group in state["param_groups"]] == [[0, 1], [2]]
    assert [group["lr"] for group in state["param_groups"]] == [0.1, 0.5]
    assert type(state["param_groups"][0]) is dict
    assert list(state["state"]) == [2]
    assert state["state"][2]["momentum_buffer"] is optimizer.state[params[2]]["momentum_buffer"]


@pytest.mark.parametrize("cls", [optim.SGD, optim.Adam, optim.Adafactor, HandWritten])
def test_training_goes_on_from_a_loaded_state(cls):
    options = {"lr": 0.1, "momentum": 0.9} if cls is optim.SGD else {"lr": 0.1}
    params, optimizer = trained(cls, **options)
    state = copy.deepcopy(optimizer.state_dict())
    copies = [param.detach().clone().requires_grad_() for param in params]
    other = cls(copies, **{**options, "lr": 0.7})
    other.load_state_dict(state)
    for each in (params, copies):
        give_grads(*each, fill=0.5)
    optimizer.step()
    other.step()
    for one, two in zip(params, copies, strict=True):
        np.testing.assert_array_equal(one.detach().numpy(), two.detach().numpy())


def test_a_loaded_state_is_a_copy():
    params, optimizer = trained(optim.SGD, momentum=0.9, lr=0.1)
    state = optimizer.state_dict()
    before = state["state"][0]["momentum_buffer"]
    value = before.clone()
    optimizer.load_state_dict(state)
    give_grads(*params)
    optimizer.step()
    assert optimizer.state[params[0]]["momentum_buffer"] is not before
    np.testing.assert_array_equal(before.numpy(), value.numpy())


def test_floating_point_state_takes_the_dtype_of_its_parameter():
    _, optimizer = trained(optim.Adam)
    param = [flambeau.ones(2, dtype=flambeau.float64, requires_grad=True) for _ in range(2)]
    other = optim.Adam(param)
    other.load_state_dict(optimizer.state_dict())
    assert other.state[param[0]]["exp_avg"].dtype is flambeau.float64
    assert other.state[param[0]]["step"].dtype is flambeau.float32


def test_options_that_an_older_state_lacks_get_their_defaults():
    params, optimizer = trained(optim.Adam)
    state = optimizer.state_dict()
    for name in ("maximize", "amsgrad", "foreach"):
        del state["param_groups"][0][name]
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["maximize"] is False
    give_grads(*params)
    optimizer.step()


def test_state_of_arrays_and_steps_that_are_numbers_are_loaded():
    params, optimizer = trained(optim.Adam)
    state = optimizer.state_dict()
    plain = {
        key: {**{name: each.numpy() for name, each in own.items()}, "step": own["step"].item()}
        for key, own in state["state"].items()
    }
    other = optim.Adam([param.detach().clone().requires_grad_() for param in params])
    other.load_state_dict({**state, "state": plain})
    copies = other.param_groups[0]["params"]
    for each in (params, copies):
        give_grads(*each)
    optimizer.step()
    other.step()
    np.testing.assert_array_equal(params[0].detach().numpy(), copies[0].detach().numpy())


def corrupt(state, what):
    state = copy.deepcopy(state)
    if what == "groups":
        state["param_groups"].append(state["param_groups"][0])
    elif what == "parameters":
        state["param_groups"][0]["params"].append(7)
    elif what == "shape":
        state["state"][1]["exp_avg"] = flambeau.zeros(3)
    elif what == "entries":
        state["state"][1] = 5
    else:
        del state[what]
    return state


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        ("groups", ValueError, "2 parameter groups, the optimizer 1"),
        ("parameters", ValueError, "has 3 parameters"),
        ("shape", ValueError, r"'exp_avg' of parameter 1 has shape \[3\]"),
        ("entries", TypeError, "state of parameter 1 must be a dict, got int"),
        ("state", KeyError, "state"),
        ("param_groups", KeyError, "param_groups"),
    ],
)
def test_a_failed_load_changes_nothing(what, error, message):
    params, optimizer = trained(optim.Adam)
    bad = corrupt(optimizer.state_dict(), what)
    if what != "param_groups":
        bad["param_groups"][0]["lr"] = 99.0
    before, group = dict(optimizer.state[params[0]]), dict(optimizer.param_groups[0])
    with pytest.raises(error, match=message):
        optimizer.load_state_dict(bad)
    assert dict(optimizer.param_groups[0]) == group
    assert all(optimizer.state[params[0]][name] is value for name, value in before.items())


def test_names_of_a_state_dict_replace_those_here_and_may_be_missing():
    model = nn.Linear(2, 3)
    optimizer = optim.SGD(model.named_parameters(), lr=0.1)
    state = optimizer.state_dict()
    state["param_groups"][0]["param_names"] = ["w", "b"]
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["param_names"] == ["w", "b"]
    del state["param_groups"][0]["param_names"]
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["param_names"] == ["w", "b"]


# Copies


@pytest.mark.parametrize("how", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_copy_trains_on_its_own(how):
    params, optimizer = trained(optim.SGD, momentum=0.9, lr=0.5)
    other = how(optimizer)
    copies = other.param_groups[0]["params"]
    value = params[0].tolist()
    give_grads(*copies)
    other.step()
    assert params[0].tolist() == value
    give_grads(*params)
    optimizer.step()
    assert params[0].tolist() == copies[0].tolist()
    other.param_groups[0]["lr"] = 0.0
    give_grads(*copies)
    other.step()
    assert params[0].tolist() == copies[0].tolist()


def test_a_model_and_its_optimizer_stay_together_in_a_copy():
    model = nn.Linear(2, 1)
    pair = copy.deepcopy((model, optim.SGD(model.parameters(), lr=0.5)))
    assert pair[1].param_groups[0]["params"][0] is pair[0].weight


# Optimizers written with tensor operators


def test_a_hand_written_optimizer_trains_with_hooks_and_groups():
    first, second = leaf(2), leaf(2)
    optimizer = HandWritten([{"params": first}, {"params": second, "decay": 0.0}], lr=0.25)
    calls = []
    optimizer.register_step_post_hook(lambda *each: calls.append(1))
    for _ in range(2):
        give_grads(first, second)
        optimizer.step()
    assert first.tolist() == [1 - 0.25 - 0.375] * 2
    assert second.tolist() == [0.5, 0.5]
    assert calls == [1, 1]
    assert list(optimizer.state_dict()["state"][0]) == ["average"]


def test_a_wrapper_may_ask_for_the_hooks_of_its_steps_instead_of_calling_init():
    class Wrapper(optim.Optimizer):
        def __init__(self, base):
            self._patch_step_function()
            self.base = base

        def step(self, closure=None):
            return self.base.step(closure)

    param = flambeau.ones(2, requires_grad=True)
    wrapper, steps = Wrapper(optim.SGD([param], lr=1.0)), []
    wrapper.register_step_post_hook(lambda *_: steps.append(param.tolist()))
    param.grad = flambeau.ones(2)
    wrapper.step()
    assert steps == [[0.0, 0.0]]


def test_a_wrapper_shares_groups_and_state_with_the_optimizer_it_wraps():
    class Wrapper(optim.Optimizer):
        def __init__(self, base):
            self.base = base
            self.param_groups = base.param_groups
            self.state = base.state

        def step(self, closure=None):
            return self.base.step(closure)

    (param,), base = trained(optim.SGD, 1, lr=1.0, momentum=0.5)
    wrapper = Wrapper(base)
    assert wrapper.param_groups is base.param_groups
    before = param.tolist()
    wrapper.param_groups[0]["lr"] = 0.0
    wrapper.step()
    assert param.tolist() == before
    wrapper.state[param]["momentum_buffer"] = flambeau.full_like(param, 4.0)
    wrapper.param_groups = [{**wrapper.param_groups[0], "lr": 1.0, "own": 1}]
    base.param_groups = wrapper.param_groups
    param.grad = flambeau.zeros_like(param)
    wrapper.step()
    assert param.tolist() == [each - 2.0 for each in before]
    wrapper.param_groups[0]["lr"] = 0.0
    wrapper.step()
    assert param.tolist() == [each - 2.0 for each in before]


def test_states_of_named_parameters_are_matched_by_name():
    def optimizer(order):
        params = {name: nn.Parameter(flambeau.ones(2)) for name in "abc"}
        made = optim.Adam([(name, params[name]) for name in order])
        for i, name in enumerate("abc"):
            params[name].grad = flambeau.full((2,), float(i))
        return made, params

    one, params = optimizer("abc")
    one.step()
    other, theirs = optimizer("cab")
    other.load_state_dict(one.state_dict())
    for name in "abc":
        assert flambeau.equal(
            other.state[theirs[name]]["exp_avg"], one.state[params[name]]["exp_avg"]
        )
    assert other.param_groups[0]["param_names"] == ["c", "a", "b"]
    state = one.state_dict()
    state["param_groups"][0]["param_names"] = ["a", "b", "d"]
    with pytest.raises(ValueError, match=r"only the optimizer has \['c'\], only .* \['d'\]"):
        other.load_state_dict(state)


def test_a_state_that_does_not_fit_is_refused():
    weight = nn.Parameter(flambeau.ones(2))
    weight.grad = flambeau.ones(2)
    adam, momentum = optim.Adam([weight]), optim.SGD([weight], momentum=0.9)
    adam.step()
    state = adam.state_dict()
    with pytest.raises(ValueError, match="state of parameter 0 lacks 'momentum_buffer' and has"):
        momentum.load_state_dict({**momentum.state_dict(), "state": state["state"]})
    with pytest.raises(ValueError, match="a state of parameter 1, which none of its groups has"):
        adam.load_state_dict({**state, "state": {1: state["state"][0]}})


@pytest.mark.parametrize("name", ["Adagrad", "Muon"])
def test_lazy_parameters_are_refused_where_shapes_are_needed(name):
    lazy = nn.LazyLinear(2)
    with pytest.raises(ValueError, match=f"Attempted to use an uninitialized parameter in {name}"):
        getattr(flambeau.optim, name)(lazy.parameters())
