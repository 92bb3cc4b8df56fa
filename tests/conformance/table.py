"""Running one expression with PyTorch and with flambeau, and comparing all that comes out."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as torch_functional

import flambeau
import flambeau.nn.functional as flambeau_functional
from flambeau.core.convert import make


class Case(NamedTuple):
    """A row of a table of comparisons.

    Attributes:
        name: What the test is called.
        compute: Called as ``compute(F, *tensors)`` with either library's ``nn.functional``; gives
            a tensor or a tuple of tensors.
        inputs: NumPy arrays; those of floating point take gradients.
        tolerance: Relative and absolute, in float32.
        constants: Positions of floating point inputs that take no gradient.
    """

    name: str
    compute: Callable[..., Any]
    inputs: Sequence[Any]
    tolerance: float = 2e-5
    constants: tuple[int, ...] = ()


class Outcome(NamedTuple):
    """Everything a computation gave: results, their dtypes, the gradients of its inputs."""

    results: list[np.ndarray]
    dtypes: list[str]
    gradients: list[np.ndarray | None]


def run_torch(case: Case) -> Outcome:
    """The case under PyTorch."""
    return _run(case, torch_functional, torch.from_numpy, torch.is_tensor)


def run_flambeau(case: Case) -> Outcome:
    """The case under flambeau."""
    return _run(case, flambeau_functional, make, lambda x: isinstance(x, flambeau.Tensor))


def _run(case: Case, library: Any, to_tensor: Callable[..., Any], is_tensor: Any) -> Outcome:
    tensors = []
    for position, each in enumerate(case.inputs):
        if each is None:
            tensors.append(None)
            continue
        tensor = to_tensor(np.array(each))
        if each.dtype.kind in "fc" and position not in case.constants:
            tensor.requires_grad_(True)
        tensors.append(tensor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = case.compute(library, *tensors)
    results = [results] if is_tensor(results) else list(results)
    _backward(results, to_tensor)
    return Outcome(
        [np.asarray(each.detach().numpy()) for each in results],
        [str(each.dtype).split(".")[-1] for each in results],
        [_gradient(each) for each in tensors],
    )


def _backward(results: list[Any], to_tensor: Callable[..., Any]) -> None:
    # One backward with a fixed cotangent for each differentiable result.
    random = np.random.default_rng(7)
    differentiable = [each for each in results if each.requires_grad]
    for number, each in enumerate(differentiable):
        like = each.detach().numpy()
        cotangent = np.asarray(random.standard_normal(like.shape), like.dtype)
        each.backward(to_tensor(cotangent), retain_graph=number + 1 < len(differentiable))


def _gradient(tensor: Any) -> np.ndarray | None:
    if tensor is None or tensor.grad is None:
        return None
    return tensor.grad.detach().numpy()


def check(case: Case) -> None:
    """Compare values, dtypes, shapes and gradients of both libraries."""
    expected, found = run_torch(case), run_flambeau(case)
    assert found.dtypes == expected.dtypes
    compared: list[Any] = [*zip(found.results, expected.results, strict=True)]
    assert [each is None for each in found.gradients] == [
        each is None for each in expected.gradients
    ], "gradients of different inputs"
    compared += [
        (a, b) for a, b in zip(found.gradients, expected.gradients, strict=True) if b is not None
    ]
    for ours, theirs in compared:
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=case.tolerance, atol=case.tolerance)


def check_error(case: Case) -> None:
    """Check that flambeau refuses what PyTorch refuses, with the same type of exception."""
    try:
        run_torch(case)
    except Exception as error:  # noqa: BLE001
        expected = type(error)
    else:
        raise AssertionError("PyTorch accepts this")
    try:
        run_flambeau(case)
    except expected:
        return
    raise AssertionError(f"nothing was raised, PyTorch raises {expected.__name__}")
