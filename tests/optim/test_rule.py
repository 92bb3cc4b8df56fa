"""One compiled call for all parameters: what it costs, and whose arrays it may overwrite."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

import flambeau
from flambeau import optim
from flambeau.core.fusion.sequence import Fusible
from flambeau.optim import step_program
from flambeau.optim.loading import put_beside

OPTIMIZERS = [
    optim.SGD, optim.Adam, optim.AdamW, optim.Adamax, optim.NAdam, optim.RAdam, optim.Adadelta,
    optim.Adagrad, optim.ASGD, optim.RMSprop, optim.Rprop, optim.Adafactor,
]  # fmt: skip


def leaf(*shape, fill=1.0):
    return flambeau.full(shape, fill, requires_grad=True)


def give_grads(*params, fill=1.0):
    for param in params:
        param.grad = flambeau.full(param.shape, fill)


@pytest.fixture
def dispatches(monkeypatch):
    """The calls of compiled steps, each with the number of parameters it updates."""
    calls = []
    fusible = step_program._fusible

    def counting(specs):
        step = fusible(specs)

        def counted(params, *rest):
            calls.append(len(params))
            return step.fast(params, *rest)

        return Fusible(step.function, counted, step.donate)

    monkeypatch.setattr(step_program, "_fusible", counting)
    return calls


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_a_step_is_one_dispatch_for_all_groups(cls, dispatches):
    params = [leaf(2), leaf(3), leaf(2)]
    optimizer = cls([{"params": params[:2]}, {"params": params[2:], "lr": 0.3}], lr=0.1)
    for i in range(2):
        give_grads(*params)
        optimizer.step()
        assert dispatches == [3] * (i + 1)


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_changed_numbers_compile_nothing(cls, compilations):
    params = [leaf(2), leaf(3)]
    optimizer = cls(params, lr=0.1)
    give_grads(*params)
    optimizer.step()
    optimizer.step()
    compilations.reset()
    group = optimizer.param_groups[0]
    for _ in range(3):
        group["lr"] *= 0.5
        for name in ("betas", "eps", "rho", "alpha", "lambd"):
            if isinstance(group.get(name), float):
                group[name] *= 0.9
        if "betas" in group:
            group["betas"] = (group["betas"][0] * 0.9, group["betas"][1])
        optimizer.step()
    assert compilations.count == 0


def test_the_first_step_and_later_ones_are_one_program(compilations):
    params = [leaf(5), leaf(7)]
    optimizer = optim.SGD(params, lr=0.1, momentum=0.9)
    give_grads(*params)
    compilations.reset()
    optimizer.step()
    first = compilations.count
    optimizer.step()
    assert (first, compilations.count) == (1, 1)


def test_equal_optimizers_share_a_program(compilations):
    for i in range(2):
        params = [leaf(5), leaf(8)]
        optimizer = optim.Adam(params, lr=0.1)
        give_grads(*params)
        if i:
            compilations.reset()
        optimizer.step()
    assert compilations.count == 0


def test_a_weight_decay_that_is_switched_on_is_applied():
    param = leaf(2)
    optimizer = optim.SGD([param], lr=0.5)
    param.grad = flambeau.zeros(2)
    optimizer.step()
    optimizer.param_groups[0]["weight_decay"] = 1.0
    optimizer.step()
    assert param.tolist() == [0.5, 0.5]


def test_no_weight_decay_lets_an_infinite_parameter_be():
    param = flambeau.tensor([np.inf, 1.0]).requires_grad_()
    optimizer = optim.SGD([param], lr=0.5)
    give_grads(param)
    optimizer.step()
    assert param.tolist() == [np.inf, 0.5]


def test_momentum_that_is_switched_on_later_starts_from_the_gradient():
    param = leaf(2)
    optimizer = optim.SGD([param], lr=1.0, dampening=0.5)
    give_grads(param)
    optimizer.step()
    assert not optimizer.state
    optimizer.param_groups[0]["momentum"] = 0.5
    optimizer.step()
    assert optimizer.state[param]["momentum_buffer"].tolist() == [1.0, 1.0]
    optimizer.step()
    assert optimizer.state[param]["momentum_buffer"].tolist() == [1.0, 1.0]


def test_a_missing_part_of_the_state_starts_when_it_is_needed():
    param = leaf(2)
    optimizer = optim.Adam([param], lr=0.5)
    give_grads(param)
    optimizer.step()
    optimizer.param_groups[0]["amsgrad"] = True
    optimizer.step()
    assert optimizer.state[param]["max_exp_avg_sq"].shape == (2,)
    assert optimizer.state[param]["step"].item() == 2.0


def test_a_step_without_gradients_does_nothing():
    param = leaf(2)
    optimizer = optim.Adam([param])
    optimizer.step()
    assert param.tolist() == [1.0, 1.0]
    assert not optimizer.state


# Arrays that others hold


def test_arrays_that_others_hold_are_not_overwritten():
    param = leaf(3)
    optimizer = optim.Adam([param], lr=0.5)
    give_grads(param)
    optimizer.step()
    array, state = param.jax(), optimizer.state[param]["exp_avg"].jax()
    values = np.array(array), np.array(state)
    snapshot, numpy_view = param.detach().clone(), np.asarray(param.jax())
    optimizer.step()
    np.testing.assert_array_equal(array, values[0])
    np.testing.assert_array_equal(state, values[1])
    np.testing.assert_array_equal(snapshot.numpy(), values[0])
    np.testing.assert_array_equal(numpy_view, values[0])
    assert not np.array_equal(param.detach().numpy(), values[0])


def test_a_part_of_an_array_that_nothing_else_keeps_alive_stays_as_it_was():
    param = leaf(3)
    optimizer = optim.SGD([param], lr=0.5)
    part = np.asarray(param.jax())[1:]
    shared = param.detach().numpy()[1:]
    give_grads(param)
    for _ in range(3):
        optimizer.step()
    assert part.tolist() == [1.0, 1.0]
    assert shared.tolist() == param[1:].tolist() == [-0.5, -0.5]


def test_a_graph_that_was_kept_still_gives_its_gradients():
    param = leaf(2, fill=3.0)
    loss = (param**2).sum()
    loss.backward(retain_graph=True)
    optimizer = optim.SGD([param], lr=1.0)
    optimizer.step()
    assert param.tolist() == [-3.0, -3.0]
    optimizer.zero_grad()
    loss.backward()
    assert param.grad.tolist() == [6.0, 6.0]


def test_a_gradient_that_is_the_parameter_itself():
    param = leaf(2, fill=4.0)
    param.grad = param.detach()
    optimizer = optim.SGD([param], lr=0.25)
    optimizer.step()
    assert param.tolist() == [3.0, 3.0]
    optimizer.step()
    assert param.tolist() == [2.25, 2.25]


def test_parameters_that_share_an_array_part_ways():
    first = leaf(2)
    second = first.detach().clone().requires_grad_()
    optimizer = optim.SGD([first, second], lr=0.5)
    give_grads(first, fill=1.0)
    give_grads(second, fill=2.0)
    optimizer.step()
    assert (first.tolist(), second.tolist()) == ([0.5, 0.5], [0.0, 0.0])


def test_parameters_and_gradients_that_are_views():
    base, grads = flambeau.ones(4), flambeau.arange(4, dtype=flambeau.float32)
    params = [base[:2].detach().requires_grad_(), base[2:].detach().requires_grad_()]
    optimizer = optim.SGD(params, lr=1.0, momentum=0.5)
    for param, grad in zip(params, grads.chunk(2), strict=True):
        param.grad = grad
    optimizer.step()
    optimizer.step()
    assert base.tolist() == [1.0, -1.5, -4.0, -6.5]


def test_a_parameter_that_is_given_other_data():
    param = leaf(2)
    optimizer = optim.SGD([param], lr=0.5, momentum=0.5)
    give_grads(param)
    optimizer.step()
    param.data = flambeau.full((2,), 8.0)
    param.grad = flambeau.ones(2)
    optimizer.step()
    assert param.tolist() == [7.25, 7.25]


# Kinds of parameters and numbers


def test_a_learning_rate_that_is_a_tensor_is_read_at_each_step(compilations):
    rate, param = flambeau.tensor(0.5), leaf(2)
    optimizer = optim.SGD([param], lr=rate)
    give_grads(param)
    optimizer.step()
    rate.fill_(0.25)
    compilations.reset()
    optimizer.step()
    assert param.tolist() == [0.25, 0.25]
    assert compilations.count == 0


def test_tensors_among_the_numbers_of_several_groups():
    params = [leaf(2), leaf(2)]
    groups = [
        {"params": params[:1], "lr": flambeau.tensor(0.5)},
        {"params": params[1:], "lr": flambeau.tensor([0.25]), "momentum": flambeau.tensor(0.5)},
    ]
    optimizer = optim.SGD(groups)
    for _ in range(2):
        give_grads(*params)
        optimizer.step()
    assert params[0].tolist() == [0.0, 0.0]
    assert params[1].tolist() == [0.375, 0.375]


def test_a_tensor_of_several_elements_is_no_number():
    with pytest.raises(ValueError, match=r"one element, got shape \[2\]"):
        optim.SGD([leaf(2)], lr=flambeau.tensor([0.1, 0.2]))
    with pytest.raises(ValueError, match="foreach"):
        optim.Adam([leaf(2)], lr=flambeau.tensor(0.1), foreach=True)


def test_parameters_of_several_dtypes_and_shapes():
    params = [
        flambeau.ones(2, dtype=flambeau.float64, requires_grad=True),
        flambeau.ones((), dtype=flambeau.bfloat16, requires_grad=True),
        flambeau.ones(0, 3, requires_grad=True),
    ]
    optimizer = optim.Adam(params, lr=0.5)
    for param in params:
        param.grad = flambeau.ones_like(param)
    optimizer.step()
    assert [param.dtype for param in params] == [
        flambeau.float64, flambeau.bfloat16, flambeau.float32,
    ]  # fmt: skip
    assert params[0].tolist() == pytest.approx([0.5, 0.5])
    assert params[1].item() == pytest.approx(0.5, rel=1e-2)


def test_steps_are_counted_in_double_precision_if_that_is_the_default():
    param = leaf(2)
    optimizer = optim.Adam([param])
    give_grads(param)
    flambeau.set_default_dtype(flambeau.float64)
    try:
        optimizer.step()
    finally:
        flambeau.set_default_dtype(flambeau.float32)
    assert optimizer.state[param]["step"].dtype is flambeau.float64


def test_parameters_on_the_meta_device_get_state_without_values():
    param = flambeau.empty(2, 3, device="meta", requires_grad=True)
    param.grad = flambeau.empty(2, 3, device="meta")
    optimizer = optim.Adam([param])
    optimizer.step()
    assert optimizer.state[param]["exp_avg"].is_meta
    assert optimizer.state[param]["exp_avg"].shape == (2, 3)


def test_muon_takes_matrices_only():
    with pytest.raises(ValueError, match=r"\[2\]"):
        optim.Muon([leaf(2, 2), leaf(2)])
    optimizer = optim.Muon([leaf(2, 2)])
    with pytest.raises(ValueError, match="2D"):
        optimizer.add_param_group({"params": [leaf(2)]})
    with pytest.raises(ValueError, match="below 100"):
        optim.Muon([leaf(2, 2)], ns_steps=100)


def test_adafactor_takes_no_complex_parameters():
    param = flambeau.ones(2, dtype=flambeau.complex64, requires_grad=True)
    optimizer = optim.Adafactor([param])
    param.grad = flambeau.ones_like(param)
    with pytest.raises(RuntimeError, match="complex"):
        optimizer.step()


def test_a_differentiable_step_cannot_change_a_leaf():
    param = leaf(2)
    optimizer = optim.SGD([param], differentiable=True)
    give_grads(param)
    with pytest.raises(RuntimeError, match="leaf"):
        optimizer.step()


@pytest.mark.parametrize("place", ["device", "pinned_host", "mesh"])
def test_state_lies_as_its_parameter_does(place):
    device = jax.devices()[0]
    if place == "mesh":
        sharding = NamedSharding(Mesh(np.array([device]), ("x",)), PartitionSpec())
    else:
        sharding = SingleDeviceSharding(device, memory_kind=place)
    param = jax.device_put(np.ones(2, np.float32), sharding)
    assert put_beside(np.zeros(2, np.float32), param).sharding == sharding
