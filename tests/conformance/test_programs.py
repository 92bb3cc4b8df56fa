"""Whole programs as they are written for PyTorch give PyTorch's numbers, eagerly and compiled.

Each file of `programs` has a function ``train(lib, compiled)`` that runs some steps of training
with the library given, and returns numbers: losses, and what it looked at afterwards. ``compiled``
is called on each step function.
"""

from __future__ import annotations

import functools
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

import flambeau

PROGRAMS = sorted(each.stem for each in (Path(__file__).parent / "programs").glob("*.py"))


@functools.cache
def program(name):
    """The function, and what it returns with PyTorch."""
    train = import_module(f"tests.conformance.programs.{name}").train
    return train, numbers(train(torch, lambda step: step))


def numbers(values):
    return [float(each.detach() if hasattr(each, "detach") else each) for each in values]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_it_gives_in_pytorch(name):
    train, expected = program(name)
    found = numbers(train(flambeau, lambda step: step))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:the compiled function changes features")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_compiled_program_gives_what_it_gives_in_pytorch(name):
    train, expected = program(name)
    steps = []

    def compiled(step):
        steps.append(flambeau.compile(step))
        return steps[-1]

    found = numbers(train(flambeau, compiled))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    # Another program for each change of the model, none for another batch.
    most = {"quantization": 2, "surgery": 4}.get(name, 1)
    assert [step.program_count for step in steps] == [most] * len(steps)
