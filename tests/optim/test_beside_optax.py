"""Rules that optax has too: a step gives what optax makes of the same arrays."""

import subprocess
import sys
import textwrap

import jax
import numpy as np
import optax
import pytest

import flambeau
from flambeau import optim

RATE, DECAY = 0.1, 0.3


def after_decay(*transformations):
    return optax.chain(optax.add_decayed_weights(DECAY), *transformations)


def nesterov(**options):
    return optax.sgd(RATE, 0.9, nesterov=True, **options)


# What is made here, its options, and the same in optax.
CASES = {
    "SGD": (optim.SGD, {}, optax.sgd(RATE)),
    "SGD, decay": (optim.SGD, {"weight_decay": DECAY}, after_decay(optax.sgd(RATE))),
    "SGD, momentum": (optim.SGD, {"momentum": 0.9}, optax.sgd(RATE, 0.9)),
    "SGD, nesterov": (optim.SGD, {"momentum": 0.9, "nesterov": True}, nesterov()),
    "SGD, all": (
        optim.SGD,
        {"momentum": 0.9, "nesterov": True, "weight_decay": DECAY},
        after_decay(nesterov()),
    ),
    "Adam": (optim.Adam, {"betas": (0.7, 0.9)}, optax.adam(RATE, 0.7, 0.9)),
    "Adam, decay": (optim.Adam, {"weight_decay": DECAY}, after_decay(optax.adam(RATE))),
    "AdamW": (optim.AdamW, {"weight_decay": DECAY}, optax.adamw(RATE, weight_decay=DECAY)),
    "Adamax": (optim.Adamax, {"eps": 1e-2}, optax.adamax(RATE, eps=1e-2)),
    "Adamax, decay": (optim.Adamax, {"weight_decay": DECAY}, after_decay(optax.adamax(RATE))),
    "Adadelta": (optim.Adadelta, {"rho": 0.7}, optax.adadelta(RATE, 0.7)),
    "Adadelta, decay": (optim.Adadelta, {"weight_decay": DECAY}, after_decay(optax.adadelta(RATE))),
    "RMSprop": (optim.RMSprop, {}, optax.rmsprop(RATE, 0.99, eps_in_sqrt=False)),
    "RMSprop, centered": (
        optim.RMSprop,
        {"centered": True, "alpha": 0.8},
        optax.rmsprop(RATE, 0.8, centered=True, eps_in_sqrt=False),
    ),
    "RMSprop, all": (
        optim.RMSprop,
        {"centered": True, "momentum": 0.9, "weight_decay": DECAY},
        # optax.rmsprop has the rate before the momentum, and so in its state.
        after_decay(
            optax.scale_by_stddev(0.99, eps_in_sqrt=False), optax.trace(0.9),
            optax.scale_by_learning_rate(RATE),
        ),
    ),
}  # fmt: skip

# PyTorch's names for the fields of optax's states.
NAMES = {
    "Adam": {"count": "step", "mu": "exp_avg", "nu": "exp_avg_sq"},
    "AdamW": {"count": "step", "mu": "exp_avg", "nu": "exp_avg_sq"},
    "Adamax": {"count": "step", "mu": "exp_avg", "nu": "exp_inf"},
    "Adadelta": {"e_g": "square_avg", "e_x": "acc_delta"},
    "RMSprop": {"nu": "square_avg", "mu": "grad_avg", "trace": "momentum_buffer"},
    "SGD": {"trace": "momentum_buffer"},
}

RNG = np.random.default_rng(0)
START = RNG.standard_normal((3, 2)).astype(np.float32)
GRADIENTS = RNG.standard_normal((4, 3, 2)).astype(np.float32)


def stepped(cls, options, gradients=GRADIENTS):
    """A parameter and its state after some steps here."""
    param = flambeau.tensor(START).requires_grad_()
    optimizer = cls([param], lr=RATE, **options)
    for gradient in gradients:
        param.grad = flambeau.tensor(gradient)
        optimizer.step()
    return param.detach().numpy(), optimizer.state[param]


def stepped_by_optax(transformation, gradients=GRADIENTS):
    """The same of optax."""
    param, state = START, transformation.init(START)
    update = jax.jit(transformation.update)
    for gradient in gradients:
        change, state = update(gradient, state, param)
        param = optax.apply_updates(param, change)
    return param, state


@pytest.mark.parametrize("name", CASES)
def test_a_step_gives_what_optax_gives(name):
    cls, options, transformation = CASES[name]
    param, state = stepped(cls, options)
    expected, their_state = stepped_by_optax(transformation)
    np.testing.assert_allclose(param, expected, rtol=1e-6, atol=1e-6)
    names = NAMES[cls.__name__]
    theirs = {names[path[-1].name]: value for path, value in jax.tree.leaves_with_path(their_state)}
    # PyTorch counts steps where optax has no use for them.
    assert set(state) - set(theirs) <= {"step"}
    for entry, value in theirs.items():
        np.testing.assert_allclose(state[entry].numpy(), value, rtol=1e-6, atol=1e-6)


def test_amsgrad_gives_what_adam_of_optax_gives_while_the_average_square_grows():
    growing = GRADIENTS[0] * np.arange(1, 5, dtype=np.float32)[:, None, None]
    param, state = stepped(optim.Adam, {"amsgrad": True, "eps": 0.1}, growing)
    expected, _ = stepped_by_optax(optax.adam(RATE, eps=0.1), growing)
    np.testing.assert_allclose(param, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(state["max_exp_avg_sq"].numpy(), state["exp_avg_sq"].numpy())


def test_dampening_scales_all_gradients_but_the_first():
    param, state = stepped(optim.SGD, {"momentum": 0.5, "dampening": 0.25})
    damped = GRADIENTS * np.array([1, 0.75, 0.75, 0.75], np.float32)[:, None, None]
    expected, (buffer, *_) = stepped_by_optax(optax.sgd(RATE, 0.5), damped)
    np.testing.assert_allclose(param, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(state["momentum_buffer"].numpy(), buffer.trace, rtol=1e-6)


def test_no_optimizer_imports_optax():
    code = """
        import sys
        import flambeau
        from flambeau import optim

        weight = flambeau.ones(2, requires_grad=True)
        for kind in (optim.SGD, optim.AdamW, optim.Adadelta, optim.RMSprop, optim.Adamax):
            weight.grad = flambeau.ones(2)
            kind([weight]).step()
        assert "optax" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
