"""A forked process can read values, ends, and says at once that it cannot compute."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

BEGIN = """
import os, sys, time, traceback, warnings
warnings.simplefilter("ignore")
import flambeau
from flambeau import nn

def in_child(action):
    child = os.fork()
    if child == 0:
        action()
        sys.exit(0)
    for _ in range(600):
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.05)
    os.kill(child, 9)
    print("hangs", flush=True)
"""

AFTER_USE = (
    BEGIN
    + """
model = nn.Linear(100, 100)
optimizer = flambeau.optim.SGD(model.parameters(), lr=0.1)
x = flambeau.ones(500, 100)

def step(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()

compiled = flambeau.compile(step)
step(x), compiled(x)
big = flambeau.ones(700, 700)
for _ in range(20):
    late = big @ big

def refused(action):
    def run():
        try:
            print(action())
        except RuntimeError as error:
            print("'spawn' start method" in str(error), flush=True)
    in_child(run)

refused(lambda: compiled(x))
refused(lambda: step(x))
refused(lambda: x * 2)
refused(lambda: flambeau.ones(4, 7).cumsum(1))
refused(lambda: flambeau.tensor([1.0]))
refused(lambda: flambeau.rand(3))
refused(lambda: in_child(lambda: None) or x + 1)
in_child(lambda: print(late.numpy()[0, 0], model.weight.shape, flush=True))
in_child(lambda: flambeau.save(model.state_dict(), sys.argv[1]))
weight = model.weight.detach().clone()
print(bool((flambeau.load(sys.argv[1])["weight"] == weight).all()), bool(compiled(x) > 0))
"""
)

FUSED = (
    BEGIN
    + """
flambeau.compiler.gears(fuse=2)
x = flambeau.arange(3.0)
for _ in range(6):
    print("values are read:", x.sum().item())
    y = (x * 2.0).exp().log()
in_child(lambda: print(y.tolist(), flush=True))
print(flambeau.compiler.stats()["followed"] > 0)
"""
)

BEFORE_USE = (
    BEGIN
    + """
in_child(lambda: print(float(flambeau.ones(4, 7).cumsum(1).sum()), flush=True))
"""
)


def output_of(program, *arguments):
    command = [sys.executable, "-c", program, *arguments]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def test_after_jax_has_started(tmp_path):
    expected = ["True"] * 7 + ["700.0 flambeau.Size([100, 100])", "True True"]
    assert output_of(AFTER_USE, str(tmp_path / "model.pt")) == expected


def test_before_jax_has_started_a_child_computes():
    assert output_of(BEFORE_USE) == ["112.0"]


def test_a_child_can_read_what_waited_to_be_fused():
    assert output_of(FUSED)[-2:] == ["[0.0, 2.0, 4.0]", "True"]
