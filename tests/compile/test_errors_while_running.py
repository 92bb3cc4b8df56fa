"""A program that fails while it runs loses nothing that it did not have to."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import flambeau
from flambeau import Tensor, nn


def test_a_callback_that_raises_loses_nothing():
    fails = [False]

    def passed_on(values):
        if fails[0]:
            raise ValueError("no more data")
        return np.asarray(values)

    model = nn.Linear(2, 2)
    optimizer = flambeau.optim.Adam(model.parameters())

    @flambeau.compile
    def step(x):
        array = x.jax()
        spec = jax.ShapeDtypeStruct(array.shape, array.dtype)
        optimizer.zero_grad()
        model(Tensor._wrap(jax.pure_callback(passed_on, spec, array))).sum().backward()
        optimizer.step()

    step(flambeau.ones(1, 2))
    before = [each.tolist() for each in model.parameters()]
    fails[0] = True
    with pytest.raises(Exception, match="no more data"):
        step(flambeau.ones(1, 2))
    assert [each.tolist() for each in model.parameters()] == before
    fails[0] = False
    step(flambeau.ones(1, 2))
    assert [each.tolist() for each in model.parameters()] != before


SCRIPT = """
import flambeau
model = flambeau.nn.Linear(2, 2)
optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
@flambeau.compile
def step(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
for _ in range(2):
    step(flambeau.ones(1, 2))
array = model.weight._cell.array
pointer = array.unsafe_buffer_pointer()
del array
step(flambeau.ones(1, 2))
print(model.weight._cell.array.unsafe_buffer_pointer() == pointer)
"""


@pytest.mark.parametrize(("setting", "is_overwritten"), [("1", "True"), ("0", "False")])
def test_a_setting_says_that_programs_overwrite_nothing(setting, is_overwritten):
    environment = {**os.environ, "FLAMBEAU_DONATE": setting, "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == is_overwritten
