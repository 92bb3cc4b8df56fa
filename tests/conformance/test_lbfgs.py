"""L-BFGS against PyTorch's: losses, parameters and numbers of evaluations."""

import copy

import numpy as np
import pytest
import torch

import flambeau


def rosenbrock(lib, x, y):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x[:-1]) ** 2).sum() + (y**2).sum()


def quartic(lib, x, y):
    matrix = np.random.default_rng(0).standard_normal((6, 6)).astype(str(x.dtype).split(".")[1])
    return ((lib.tensor(matrix) @ x - 1) ** 2).sum() + (y**4).sum()


def flat(lib, x, y):
    return 0 * x.sum() + 0 * y.sum()


SEARCH = {"line_search_fn": "strong_wolfe"}
CASES = [
    (rosenbrock, SEARCH),
    (rosenbrock, {"lr": 1e-3}),
    (rosenbrock, {**SEARCH, "lr": 0.5, "history_size": 3, "max_iter": 4}),
    (rosenbrock, {**SEARCH, "max_eval": 6}),
    (rosenbrock, {**SEARCH, "max_iter": 1}),
    (quartic, {}),
    (quartic, SEARCH),
    (quartic, {"lr": 0.5, "history_size": 2, "max_iter": 4}),
    (quartic, {"tolerance_grad": 1.0}),
    (quartic, {**SEARCH, "tolerance_change": 1e-2}),
    (flat, SEARCH),
]


def start(lib, function, dtype, options):
    rng = np.random.default_rng(1)
    x, y = (
        lib.tensor(rng.standard_normal(shape).astype(dtype)).requires_grad_()
        for shape in ((6,), (2, 2))
    )
    optimizer = lib.optim.LBFGS([x, y], **options)
    calls = []

    def closure():
        optimizer.zero_grad()
        loss = function(lib, x, y)
        loss.backward()
        calls.append(loss)
        return loss

    return (x, y), optimizer, closure, calls


@pytest.mark.parametrize(("function", "options"), CASES)
def test_the_course_is_pytorchs(function, options):
    results = []
    for lib in (flambeau, torch):
        params, optimizer, closure, calls = start(lib, function, "float64", options)
        losses = [optimizer.step(closure).item() for _ in range(5)]
        state = optimizer.state_dict()["state"][0]
        counts = (len(calls), state["n_iter"], state["func_evals"])
        results.append((losses, counts, [each.detach().numpy() for each in params], set(state)))
    (ours, our_counts, our_params, our_keys), (theirs, their_counts, their_params, their_keys) = (
        results
    )
    assert our_counts == their_counts
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
    for one, other in zip(our_params, their_params, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    # The shares of the two-loop recursion, which PyTorch keeps, are needed within a step only.
    assert our_keys == their_keys - {"al"}


@pytest.mark.parametrize("options", [{}, SEARCH], ids=["fixed", "search"])
def test_single_precision_gets_as_far(options):
    results = []
    for lib in (flambeau, torch):
        params, optimizer, closure, _ = start(lib, quartic, "float32", options)
        for _ in range(3):
            optimizer.step(closure)
        results.append([each.detach().numpy() for each in params])
    for one, other in zip(*results, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_complex_parameters_agree():
    results = []
    for lib in (flambeau, torch):
        x = lib.tensor(np.array([1 + 2j, -0.5j, 0.3], "complex128")).requires_grad_()
        optimizer = lib.optim.LBFGS([x], lr=0.3)

        def closure(lib=lib, x=x, optimizer=optimizer):
            optimizer.zero_grad()
            loss = ((x - 1j).abs() ** 2).sum() + (x.abs() ** 4).sum()
            loss.backward()
            return loss

        for _ in range(2):
            optimizer.step(closure)
        results.append(x.detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-6, atol=1e-9)


def test_a_state_of_pytorch_is_continued():
    theirs, their_optimizer, their_closure, _ = start(torch, rosenbrock, "float64", SEARCH)
    their_optimizer.step(their_closure)
    ours, optimizer, closure, _ = start(flambeau, rosenbrock, "float64", SEARCH)
    with flambeau.no_grad():
        for one, other in zip(ours, theirs, strict=True):
            one.copy_(flambeau.tensor(other.detach().numpy()))
    optimizer.load_state_dict(copy.deepcopy(their_optimizer.state_dict()))
    for _ in range(2):
        loss = optimizer.step(closure).item()
        assert loss == pytest.approx(their_optimizer.step(their_closure).item(), rel=1e-5)


def test_the_line_search_must_be_known():
    for lib in (torch, flambeau):
        _, optimizer, closure, _ = start(lib, quartic, "float64", {"line_search_fn": "golden"})
        with pytest.raises(RuntimeError, match="strong_wolfe"):
            optimizer.step(closure)


def test_there_is_one_group():
    for lib in (torch, flambeau):
        groups = [{"params": [lib.zeros(1)]}, {"params": [lib.zeros(1)]}]
        with pytest.raises(ValueError, match="group"):
            lib.optim.LBFGS(groups)
