"""Optimizers against PyTorch's: 20 steps on the same gradients, states that go back and forth."""

import copy
import inspect
import io

import numpy as np
import pytest
import torch

import flambeau
from flambeau import optim

SHAPES = ((4, 3), (3, 5), (5,))
STEPS = 20

# name, options, and for how many steps PyTorch's rounding can be followed exactly enough
CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.5, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.1, "betas": (0.4, 0.7), "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "maximize": True}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.3, "eps": 1e-3}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.0, "maximize": True}),
    ("Adamax", {"lr": 0.1}),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {"lr": 0.1}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1, "maximize": True}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.1}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "betas": (0.8, 0.9), "maximize": True}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adadelta", {}),
    ("Adadelta", {"rho": 0.5, "weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {"lr": 0.1}),
    (
        "Adagrad",
        {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "maximize": True},
    ),
    ("ASGD", {"lr": 0.1}),
    ("ASGD", {"lr": 0.1, "t0": 5, "lambd": 0.01, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "alpha": 0.3, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-2, 0.2), "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.1, "weight_decay": 0.1, "d": 2.0, "eps": (1e-4, 1e-2)}),
    ("Adafactor", {"beta2_decay": -0.5, "maximize": True}),
    ("Muon", {}),
    ("Muon", {"lr": 0.1, "nesterov": False, "weight_decay": 0.0}),
    ("Muon", {"lr": 0.1, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}),
]
IDS = [f"{name}-{','.join(f'{k}={v}' for k, v in options.items())}" for name, options in CASES]
# One case of each class, for what does not depend on the options.
CLASSES = list({name: (name, options) for name, options in CASES}.values())
CLASS_IDS = [name for name, _ in CLASSES]
REAL_ONLY = {"Adafactor", "Muon"}
# Muon rounds to bfloat16 in between, and matrix products are accumulated in another order.
LOOSE = {"Muon": 2e-2}


def shapes_for(name):
    return SHAPES[:2] if name == "Muon" else SHAPES


def draw(shapes, dtype="float32", count=STEPS, seed=0):
    """Arrays of the given shapes for the parameters, and for each step's gradients."""
    rng = np.random.default_rng(seed)

    def one(shape):
        values = rng.standard_normal(shape)
        if dtype.startswith("complex"):
            values = values + 1j * rng.standard_normal(shape)
        return values.astype(dtype)

    return [one(s) for s in shapes], [[one(s) for s in shapes] for _ in range(count)]


def parameters(lib, arrays):
    return [lib.tensor(each).requires_grad_() for each in arrays]


def set_grads(lib, params, arrays):
    for param, array in zip(params, arrays, strict=True):
        param.grad = None if array is None else lib.tensor(array)


def assert_close(ours, theirs, name, tolerance=None):
    ours, theirs = np.asarray(ours.detach()), theirs.detach().numpy()
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    if tolerance is None:
        tolerance = LOOSE.get(name, 1e-13 if "64" in str(theirs.real.dtype) else 2e-6)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def assert_same_state(ours, theirs, name):
    """Two optimizers' state dicts agree: keys, numbers, tensors."""
    ours, theirs = ours.state_dict(), theirs.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    assert list(ours["state"]) == list(theirs["state"])
    for key, expected in theirs["state"].items():
        assert list(ours["state"][key]) == list(expected)
        for entry, value in expected.items():
            assert_close(ours["state"][key][entry], value, name)


def run_both(name, options, dtype="float32", steps=STEPS):
    shapes = shapes_for(name)
    start, grads = draw(shapes, dtype, steps)
    results = []
    for lib, module in ((flambeau, optim), (torch, torch.optim)):
        params = parameters(lib, start)
        optimizer = getattr(module, name)(params, **options)
        for arrays in grads:
            set_grads(lib, params, arrays)
            optimizer.step()
        results.append((params, optimizer))
    return results


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_twenty_steps_agree(name, options):
    (ours, our_optimizer), (theirs, their_optimizer) = run_both(name, options)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, name)
    assert_same_state(our_optimizer, their_optimizer, name)
    assert repr(our_optimizer) == repr(their_optimizer)


@pytest.mark.parametrize(("name", "options"), CLASSES, ids=CLASS_IDS)
def test_double_precision_agrees(name, options):
    (ours, _), (theirs, _) = run_both(name, options, "float64")
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, name)


@pytest.mark.parametrize(
    ("name", "options"),
    [case for case in CLASSES if case[0] not in REAL_ONLY],
    ids=[name for name in CLASS_IDS if name not in REAL_ONLY],
)
def test_complex_parameters_agree(name, options):
    (ours, our_optimizer), (theirs, their_optimizer) = run_both(name, options, "complex64", 5)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, name)
    assert_same_state(our_optimizer, their_optimizer, name)


@pytest.mark.parametrize("name", ["SGD", "AdamW", "RMSprop", "Adafactor"])
def test_bfloat16_parameters_agree_to_their_rounding(name):
    start, grads = draw(SHAPES, count=5)
    params = parameters(flambeau, start), parameters(torch, start)
    for lib, module, own in ((flambeau, optim, params[0]), (torch, torch.optim, params[1])):
        own[:] = [each.detach().to(lib.bfloat16).requires_grad_() for each in own]
        optimizer = getattr(module, name)(own, lr=0.1)
        for arrays in grads:
            for param, array in zip(own, arrays, strict=True):
                param.grad = lib.tensor(array).to(lib.bfloat16)
            optimizer.step()
    for one, other in zip(*params, strict=True):
        assert one.dtype is flambeau.bfloat16
        ours, theirs = np.asarray(one.detach().float()), other.detach().float().numpy()
        np.testing.assert_allclose(ours, theirs, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(("name", "options"), CLASSES, ids=CLASS_IDS)
def test_parameters_without_a_gradient_are_left_alone(name, options):
    shapes = shapes_for(name)
    start, grads = draw(shapes, count=4)
    results = []
    for lib, module in ((flambeau, optim), (torch, torch.optim)):
        params = parameters(lib, start)
        optimizer = getattr(module, name)(params, **options)
        for i, arrays in enumerate(grads):
            # The second parameter gets gradients from the third step on, the first never again.
            given = [arrays[0] if i < 2 else None, arrays[1] if i >= 2 else None, *arrays[2:]]
            set_grads(lib, params, given)
            optimizer.step()
        results.append((params, optimizer))
    (ours, our_optimizer), (theirs, their_optimizer) = results
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, name)
    assert_same_state(our_optimizer, their_optimizer, name)


@pytest.mark.parametrize(("name", "options"), CLASSES, ids=CLASS_IDS)
def test_groups_have_their_own_numbers_and_follow_changes(name, options):
    shapes = shapes_for(name)
    start, grads = draw(shapes, count=6)
    results = []
    for lib, module in ((flambeau, optim), (torch, torch.optim)):
        params = parameters(lib, start)
        groups = [{"params": params[:1], "lr": 0.03}, {"params": params[1:]}]
        optimizer = getattr(module, name)(groups, **options)
        for i, arrays in enumerate(grads):
            set_grads(lib, params, arrays)
            for group in optimizer.param_groups:
                group["lr"] *= 0.8
                if i == 3 and "weight_decay" in group:
                    group["weight_decay"] = 0.2
            optimizer.step()
        results.append((params, optimizer))
    (ours, our_optimizer), (theirs, their_optimizer) = results
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, name)
    assert_same_state(our_optimizer, their_optimizer, name)


def continue_with(lib, module, name, options, start, state_dict, grads):
    params = parameters(lib, start)
    optimizer = getattr(module, name)(params, **options)
    optimizer.load_state_dict(state_dict)
    for arrays in grads:
        set_grads(lib, params, arrays)
        optimizer.step()
    return params, optimizer


@pytest.mark.parametrize(("name", "options"), CLASSES, ids=CLASS_IDS)
def test_state_of_pytorch_is_continued_here(name, options):
    shapes = shapes_for(name)
    start, grads = draw(shapes, count=6)
    theirs = parameters(torch, start)
    optimizer = getattr(torch.optim, name)(theirs, **options)
    for arrays in grads[:3]:
        set_grads(torch, theirs, arrays)
        optimizer.step()
    middle = [each.detach().numpy().copy() for each in theirs]
    state = copy.deepcopy(optimizer.state_dict())
    for arrays in grads[3:]:
        set_grads(torch, theirs, arrays)
        optimizer.step()
    ours, continued = continue_with(flambeau, optim, name, options, middle, state, grads[3:])
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, name)
    assert_same_state(continued, optimizer, name)


@pytest.mark.parametrize(("name", "options"), CLASSES, ids=CLASS_IDS)
def test_state_of_ours_is_continued_by_pytorch(name, options):
    shapes = shapes_for(name)
    start, grads = draw(shapes, count=6)
    ours = parameters(flambeau, start)
    optimizer = getattr(optim, name)(ours, **options)
    for arrays in grads[:3]:
        set_grads(flambeau, ours, arrays)
        optimizer.step()
    middle = [np.array(each.detach()) for each in ours]
    # Through NumPy, as a checkpoint file goes.
    state = {
        "param_groups": optimizer.state_dict()["param_groups"],
        "state": {
            key: {entry: torch.tensor(np.array(value)) for entry, value in entries.items()}
            for key, entries in optimizer.state_dict()["state"].items()
        },
    }
    for arrays in grads[3:]:
        set_grads(flambeau, ours, arrays)
        optimizer.step()
    theirs, continued = continue_with(torch, torch.optim, name, options, middle, state, grads[3:])
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other, name)
    assert_same_state(optimizer, continued, name)


# name, options, and the number of steps through which PyTorch can go backwards
DIFFERENTIABLE = [
    ("SGD", {"weight_decay": 0.1}, 2),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}, 2),
    ("Adam", {"weight_decay": 0.1}, 2),
    ("AdamW", {}, 2),
    ("Adamax", {}, 1),
    ("NAdam", {}, 2),
    ("RAdam", {}, 2),
    ("Adadelta", {}, 2),
    ("Adagrad", {}, 2),
    ("ASGD", {}, 2),
    ("RMSprop", {"momentum": 0.9}, 2),
    ("Rprop", {}, 1),
]


@pytest.mark.parametrize(("name", "options", "steps"), DIFFERENTIABLE, ids=lambda each: str(each))
def test_gradients_flow_through_a_differentiable_step(name, options, steps):
    start, grads = draw(SHAPES[:1], "float64", steps)
    results = []
    for lib, module in ((flambeau, optim), (torch, torch.optim)):
        (leaf,) = parameters(lib, start)
        slope = lib.tensor(grads[0][0]).requires_grad_()
        param = leaf.clone()
        optimizer = getattr(module, name)([param], differentiable=True, **options)
        for arrays in grads:
            param.grad = lib.tensor(arrays[0]) * slope
            optimizer.step()
        (param**2).sum().backward()
        results.append((param, leaf.grad, slope.grad))
    if name == "SGD" and "momentum" in options:
        # PyTorch's first momentum buffer is cut off from the gradient that it is made of.
        results = [each[:2] for each in results]
    # A differentiable step of PyTorch's corrects the bias in single precision.
    for one, other in zip(*results, strict=True):
        assert_close(one, other, name, 1e-6)


def test_gradients_flow_to_a_learning_rate():
    results = []
    for lib in (flambeau, torch):
        rate = lib.tensor(0.1, dtype=lib.float64, requires_grad=True)
        leaf = lib.ones(2, dtype=lib.float64, requires_grad=True)
        param = leaf.clone()
        optimizer = lib.optim.SGD([param], lr=rate, differentiable=True)
        for _ in range(2):
            (gradient,) = lib.autograd.grad((param**3).sum(), param)
            param.grad = gradient
            optimizer.step()
        (param**2).sum().backward()
        results.append((rate.grad.item(), *leaf.grad.tolist()))
    assert results[0] == pytest.approx(results[1])


def test_a_bfloat16_state_of_pytorch_is_loaded():
    param = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    optimizer = torch.optim.Adam([param])
    param.grad = torch.full((3,), 0.5, dtype=torch.bfloat16)
    optimizer.step()
    mine = flambeau.ones(3, dtype=flambeau.bfloat16, requires_grad=True)
    loaded = optim.Adam([mine])
    loaded.load_state_dict(optimizer.state_dict())
    assert loaded.state[mine]["exp_avg"].dtype is flambeau.bfloat16
    assert loaded.state[mine]["step"].dtype is flambeau.float32
    np.testing.assert_array_equal(
        np.asarray(loaded.state[mine]["exp_avg"].float()),
        optimizer.state[param]["exp_avg"].float().numpy(),
    )


def test_a_checkpoint_file_of_pytorch_is_loaded():
    theirs = [torch.ones(2, requires_grad=True)]
    optimizer = torch.optim.SGD(theirs, lr=0.1, momentum=0.9)
    theirs[0].grad = torch.ones(2)
    optimizer.step()
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    ours = flambeau.ones(2, requires_grad=True)
    loaded = optim.SGD([ours], lr=0.5)
    loaded.load_state_dict(torch.load(file))
    assert loaded.param_groups[0]["lr"] == 0.1
    assert loaded.state[ours]["momentum_buffer"].tolist() == [1.0, 1.0]


# Wrong arguments: PyTorch's type of error for each.
INVALID = [
    ("SGD", {"lr": -1}),
    ("SGD", {"momentum": -0.5}),
    ("SGD", {"weight_decay": -0.5}),
    ("SGD", {"nesterov": True}),
    ("SGD", {"nesterov": True, "momentum": 0.9, "dampening": 0.1}),
    ("SGD", {"fused": True, "foreach": True}),
    ("SGD", {"fused": True, "differentiable": True}),
    ("Adam", {"lr": -1}),
    ("Adam", {"lr": float("nan")}),
    ("Adam", {"betas": (1.0, 0.9)}),
    ("Adam", {"betas": (0.9, -0.1)}),
    ("Adam", {"betas": (0, 0.9)}),
    ("Adam", {"betas": (1.0, 0.9, 0.5)}),
    ("Adam", {"eps": -1}),
    ("AdamW", {"weight_decay": -1}),
    ("AdamW", {"betas": (0.9, torch.tensor(0.9))}),
    ("Adamax", {"betas": (0.0, 1.0)}),
    ("NAdam", {"momentum_decay": -0.2}),
    ("RAdam", {"betas": (1.0, 0.9)}),
    ("Adadelta", {"rho": 1.1}),
    ("Adagrad", {"lr_decay": -0.5}),
    ("Adagrad", {"initial_accumulator_value": -0.5}),
    ("ASGD", {"weight_decay": -0.5}),
    ("RMSprop", {"alpha": -0.5}),
    ("Rprop", {"etas": (1.0, 0.5)}),
    ("Adafactor", {"beta2_decay": 0.8}),
    ("Adafactor", {"eps": (-1e-3, 1e-3)}),
    ("Adafactor", {"d": 0.0}),
    ("Muon", {"adjust_lr_fn": "arbitrary"}),
    ("Muon", {"momentum": -0.1}),
    ("SGD", {"lr": "a"}),
    ("SGD", {"momentum": None}),
    ("Adam", {"lr": "0.1"}),
    ("Adam", {"eps": 1j}),
    ("Adam", {"betas": (0.9, "a")}),
    ("RMSprop", {"alpha": "a"}),
]


@pytest.mark.parametrize(("name", "options"), INVALID, ids=lambda each: str(each))
def test_wrong_arguments_raise_as_in_pytorch(name, options):
    with pytest.raises((ValueError, RuntimeError, TypeError)) as expected:
        getattr(torch.optim, name)([torch.ones(2, 2, requires_grad=True)], **options)
    if "betas" in options:
        betas = [flambeau.tensor(b.item()) if torch.is_tensor(b) else b for b in options["betas"]]
        options = {**options, "betas": tuple(betas)}
    with pytest.raises(expected.type):
        getattr(optim, name)([flambeau.ones(2, 2, requires_grad=True)], **options)


@pytest.mark.parametrize("name", ["Adamax", "NAdam", "RAdam"])
def test_betas_may_be_integers_where_pytorch_lets_them(name):
    start, grads = draw(SHAPES[:1], count=2)
    results = []
    for lib in (flambeau, torch):
        params = parameters(lib, start)
        optimizer = getattr(lib.optim, name)(params, betas=(0, 0.9))
        for arrays in grads:
            set_grads(lib, params, arrays)
            optimizer.step()
        results.append(params[0])
    assert_close(*results, name)


def test_numbers_that_are_tensors_agree():
    start, grads = draw(SHAPES[:1], count=3)
    results = []
    for lib in (flambeau, torch):
        params = parameters(lib, start)
        rate, betas = lib.tensor([0.1]), (lib.tensor(0.8), lib.tensor([0.9]))
        optimizer = lib.optim.Adam(params, lr=rate, betas=betas)
        for arrays in grads:
            set_grads(lib, params, arrays)
            optimizer.step()
            rate.mul_(0.5)
        results.append(params[0])
    assert_close(*results, "Adam", 1e-5)


@pytest.mark.parametrize("name", [name for name in CLASS_IDS if name != "Muon"])
def test_a_gradient_that_is_no_number_does_the_same(name):
    results = []
    for lib in (flambeau, torch):
        param = lib.ones(2, 2, requires_grad=True)
        optimizer = getattr(lib.optim, name)([param])
        for gradient in (1.0, float("nan"), 1.0):
            param.grad = lib.full((2, 2), gradient)
            optimizer.step()
        results.append(param)
    assert_close(*results, name)


def test_a_parameter_twice_in_a_group_has_the_same_number():
    for lib in (flambeau, torch):
        param = lib.ones(2, requires_grad=True)
        with pytest.warns(UserWarning, match="parameter"):
            optimizer = lib.optim.Adam([param, lib.ones(2), param])
        param.grad = lib.ones(2)
        optimizer.step()
        state = optimizer.state_dict()
        assert list(state["state"]) == [2]
        assert state["param_groups"][0]["params"] == [2, 1, 2]


def test_hooks_of_a_step_get_and_give_what_pytorchs_do():
    seen = []
    for lib in (flambeau, torch):
        optimizer = lib.optim.SGD([lib.ones(2, requires_grad=True)])

        def doubled(own, args, kwargs):
            assert args[0] is own
            return (own, lambda: 2 * args[1]()), {}

        optimizer.register_step_pre_hook(doubled)
        optimizer.register_step_post_hook(
            lambda own, args, kwargs: seen.append((args[0] is own, len(args), kwargs))
        )
        assert optimizer.step(lambda: 3) == 6
    assert seen[0] == seen[1]


def test_the_text_without_groups_is_the_same():
    texts = []
    for lib in (flambeau, torch):
        optimizer = lib.optim.SGD([lib.ones(2)])
        del optimizer.param_groups[:]
        texts.append(repr(optimizer))
    assert texts[0] == texts[1]


def signature_of(cls):
    return {
        name: (parameter.kind, parameter.default)
        for name, parameter in inspect.signature(cls.__init__).parameters.items()
    }


@pytest.mark.parametrize("name", CLASS_IDS)
def test_arguments_are_pytorchs(name):
    assert signature_of(getattr(optim, name)) == signature_of(getattr(torch.optim, name))
