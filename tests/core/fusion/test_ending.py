"""A process that ends while a sequence is being compiled."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Trains until the sequence is being compiled beside, and then does what `{end}` says.
SCRIPT = """
import threading, time
import flambeau
from flambeau import nn
from flambeau.core.fusion import sequence

flambeau.compiler.gears(interpret=64, fuse=4)
flambeau.manual_seed(0)
model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(3)])
adam = flambeau.optim.Adam(model.parameters())

def train(steps):
    for _ in range(steps):
        model(flambeau.ones(4, 8)).square().mean().backward()
        adam.step()
        adam.zero_grad()
        if any(each.name == "flambeau-fusing" for each in threading.enumerate()):
            return True

{begin}
assert train(100)
{end}
"""

SLOW = """
check = sequence.ending.check

def slow():
    time.sleep(0.2)
    check()

sequence.ending.check = slow
import jax
compile_ = jax.stages.Lowered.compile

def compiled(self, *arguments, **options):
    if threading.current_thread() is not threading.main_thread():
        print("compiled beside", threading.current_thread().name, flush=True)
    return compile_(self, *arguments, **options)

jax.stages.Lowered.compile = compiled
"""

GOES_ON = """
def go_on():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    assert flambeau.compiler.stats()["followed"] == 0
    for _ in range(30):
        train(10)
    print("followed", flambeau.compiler.stats()["followed"] > 0, flush=True)

train(20)
threading.Thread(target=go_on).start()
"""


def output_of(**parts):
    environment = {**os.environ, "FLAMBEAU_CACHE": "0", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(**parts)],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("end", ["pass", "time.sleep(0.2)", "time.sleep(0.6)"])
def test_a_process_ends_well_while_it_compiles(end):
    assert output_of(begin="", end=end) == ""


def test_a_sequence_that_is_not_compiled_yet_is_given_up():
    assert output_of(begin=SLOW, end="print('end')") == "end\n"


def test_a_thread_that_goes_on_after_the_main_one_compiles_its_sequences():
    assert "followed True" in output_of(begin="", end=GOES_ON)
