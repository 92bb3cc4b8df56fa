"""optax's transformations against PyTorch's optimizers: which rules are the same arithmetic.

What agrees to rounding is compared with flambeau's rules in `tests/optim/test_beside_optax.py`.
Twenty steps in double precision on random gradients tell which rules agree.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from optax import contrib

import flambeau  # noqa: F401  (switches double precision on)

STEPS = 20
RATE = 0.1


def moved(*transformations):
    return optax.chain(*transformations, optax.scale_by_learning_rate(RATE))


# PyTorch's optimizer, its options, and what is the same in optax.
SAME = [
    ("SGD", {}, optax.sgd(RATE)),
    ("SGD", {"momentum": 0.9}, optax.sgd(RATE, 0.9)),
    ("SGD", {"momentum": 0.9, "nesterov": True}, optax.sgd(RATE, 0.9, nesterov=True)),
    (
        "SGD",
        {"momentum": 0.9, "weight_decay": 0.1},
        moved(optax.add_decayed_weights(0.1), optax.trace(0.9)),
    ),
    ("Adam", {}, optax.adam(RATE)),
    ("Adam", {"eps": 0.1, "betas": (0.5, 0.7)}, optax.adam(RATE, 0.5, 0.7, 0.1)),
    ("AdamW", {"weight_decay": 0.1}, optax.adamw(RATE, weight_decay=0.1)),
    ("Adamax", {"eps": 0.1}, optax.adamax(RATE, eps=0.1)),
    ("Adadelta", {"eps": 0.1}, optax.adadelta(RATE, eps=0.1)),
    ("RMSprop", {"eps": 0.1}, optax.rmsprop(RATE, 0.99, 0.1, eps_in_sqrt=False)),
    (
        "RMSprop",
        {"eps": 0.1, "centered": True, "momentum": 0.9},
        moved(optax.scale_by_stddev(0.99, 0.1, eps_in_sqrt=False), optax.trace(0.9)),
    ),
]

# The same, and by how much the results are apart at least, as a part of the parameter.
DIFFERENT = [
    # The first gradient escapes the dampening.
    ("SGD", {"momentum": 0.9, "dampening": 0.3}, moved(optax.scale(0.7), optax.trace(0.9)), 0.1),
    # PyTorch takes the largest average and then corrects its bias; optax the other way round.
    ("Adam", {"amsgrad": True}, optax.amsgrad(RATE), 0.1),
    # PyTorch's momentum follows a schedule.
    ("NAdam", {}, optax.nadam(RATE), 0.1),
    # PyTorch adds ε before the bias is corrected.
    ("RAdam", {"eps": 1e-3}, optax.radam(RATE, eps=1e-3), 1e-4),
    ("RAdam", {}, optax.radam(RATE), 1e-8),
    # ε is outside of the root in PyTorch, inside in optax.
    ("Adagrad", {"eps": 1e-3}, optax.adagrad(RATE, 0.0, 1e-3), 0.1),
    ("Adagrad", {}, optax.adagrad(RATE, 0.0, 1e-10), 1e-7),
    # optax's moves by what the step before has computed.
    ("Rprop", {}, optax.rprop(RATE), 0.1),
    # optax corrects the bias of the momentum, and computes in the parameter's precision.
    ("Muon", {}, contrib.muon(RATE, eps=1e-7, weight_decay=0.1), 0.1),
    ("Muon", {"nesterov": False}, contrib.muon(RATE, nesterov=False, weight_decay=0.1), 0.1),
]  # fmt: skip

SHAPES = ((4, 3), (3, 5))


def named(cases):
    return [pytest.param(*case, id=f"{case[0]}-{case[1]}") for case in cases]


def distance(name, options, transformation, scale=1.0):
    """How far apart the two are after some steps, relative to the parameters."""
    rng = np.random.default_rng(0)
    start = [rng.standard_normal(shape) for shape in SHAPES]
    theirs = [torch.tensor(each, requires_grad=True) for each in start]
    optimizer = getattr(torch.optim, name)(theirs, **{"lr": RATE, **options})
    ours = list(map(jnp.asarray, start))
    state = transformation.init(ours)

    @jax.jit
    def move(gradients, state, params):
        updates, state = transformation.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(STEPS):
        gradients = [scale * rng.standard_normal(shape) for shape in SHAPES]
        for param, gradient in zip(theirs, gradients, strict=True):
            param.grad = torch.tensor(gradient)
        optimizer.step()
        ours, state = move(gradients, state, ours)
    return max(
        np.max(np.abs(one - other.detach().numpy()) / (1e-2 + np.abs(one)))
        for one, other in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize(("name", "options", "transformation"), named(SAME))
def test_the_arithmetic_is_the_same(name, options, transformation):
    assert distance(name, options, transformation) < 1e-13


@pytest.mark.parametrize(("name", "options", "transformation", "least"), named(DIFFERENT))
def test_the_arithmetic_differs(name, options, transformation, least):
    assert distance(name, options, transformation) > least


def test_adafactor_differs_where_gradients_are_small():
    # ε₁ bounds the mean square from below in PyTorch, and is added to the squares in optax.
    transformation = moved(
        optax.scale_by_factored_rms(min_dim_size_to_factor=1), optax.clip_by_block_rms(1.0),
        optax.scale_by_param_block_rms(1e-3),
    )  # fmt: skip
    options = {"eps": (1e-7, 1e-3)}
    assert distance("Adafactor", options, transformation) < 1e-5
    assert distance("Adafactor", options, transformation, scale=1e-4) > 1e-3


def test_radam_of_optax_has_no_gradient_until_the_average_is_trusted():
    transformation, gradient = optax.scale_by_radam(), jnp.ones(2)
    state = transformation.init(gradient)._replace(count=jnp.asarray(2))
    _, pullback = jax.vjp(lambda each: transformation.update(each, state)[0], gradient)
    assert jnp.isnan(pullback(gradient)[0]).all()


def test_lbfgs_of_optax_takes_another_first_step():
    start = np.arange(1.0, 6.0)
    theirs = torch.tensor(start, requires_grad=True)
    optimizer = torch.optim.LBFGS([theirs], max_iter=1)

    def closure():
        theirs.grad = theirs.detach().clone()
        return (theirs**2).sum() / 2

    optimizer.step(closure)
    transformation = optax.chain(optax.scale_by_lbfgs(), optax.scale(-1.0))
    update, _ = transformation.update(start, transformation.init(start), start)
    assert np.max(np.abs(start + update - theirs.detach().numpy())) > 0.1
