"""Memory that runs out on the CPU is an error of the call, and tensors are as before."""

from __future__ import annotations

import os
import subprocess
import sys

import jax.numpy as jnp
import pytest

from flambeau import OutOfMemoryError
from flambeau.core.devices import headroom
from flambeau.core.programs import compiled as programs

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems have no such limit"
)

# Each step, with room for none of it, some of it or all of it; the limit comes after programs have
# run without one, or before they are looked for.
PROGRAM = """
import random, resource, sys
import flambeau
from flambeau import nn
from flambeau.core.devices import headroom

way, seed, tries = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(seed)
flambeau.manual_seed(seed)
model = nn.Sequential(nn.Linear(16, 256), nn.Tanh(), nn.Linear(256, 1))
optimizer = flambeau.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

def step(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()

def state():
    momenta = [optimizer.state[each]["momentum_buffer"] for each in model.parameters()]
    return [each.detach().numpy().copy() for each in (*model.parameters(), *momenta)]

def same(one, other):
    return all((a == b).all() for a, b in zip(one, other, strict=True))

def limited(room, action):
    pages = int(open("/proc/self/statm").read().split()[0])
    bytes_now = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (bytes_now + room, resource.RLIM_INFINITY))
    try:
        return action()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)

run = flambeau.compile(step) if way == "compiled" else step
small, large = flambeau.randn(8, 16), flambeau.randn(40_000, 16)
run(small), run(large)
failures = 0
for number in range(tries):
    if draw.random() < 0.3:
        headroom.limited = False
        float(run(large))
    before = state()
    room = int(2 ** draw.uniform(16, 26)) if number else 2**16
    try:
        limited(room, lambda: float(run(large)))
    except flambeau.OutOfMemoryError as error:
        assert "can't allocate memory" in str(error)
        failures += 1
        assert same(before, state()), (number, room)
    else:
        assert not same(before, state())
    optimizer.zero_grad()
    assert float(run(small)) >= 0
print(failures > 0)
"""


@pytest.mark.parametrize("donate", ["1", "0"])
@pytest.mark.parametrize("way", ["eager", "fused", "compiled"])
def test_a_step_without_memory_leaves_all_as_it_was(way, donate):
    tries = os.environ.get("FLAMBEAU_EXHAUSTIONS", "6")
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "FLAMBEAU_DONATE": donate}
    # The programs are there before memory is scarce.
    environment |= {"FLAMBEAU_INTERPRET": "0", "FLAMBEAU_FUSE": "2" if way == "fused" else "0"}
    command = [sys.executable, "-c", PROGRAM, way, "1", tries]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (run.stdout, run.returncode) == ("True\n", 0), run.stderr[-2000:]


@pytest.fixture
def scarce(monkeypatch):
    monkeypatch.setattr(headroom, "limited", True)
    yield
    programs._watched.clear()


def test_nothing_is_overwritten_unless_there_is_memory(monkeypatch, scarce):
    add = programs.compiled(lambda x, y: x + jnp.sort(y).sum(), "add_sum", donate=(0,))
    x, y = jnp.zeros(5) + 1, jnp.ones(7)

    def refused(need):
        raise MemoryError("Out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(headroom, "claim", refused)
        with pytest.raises(OutOfMemoryError, match="can't allocate memory"):
            add(x, y)
    assert not x.is_deleted()
    assert add(x, y)[0] == 8


def test_a_claim_that_cannot_be_met_gives_back_what_it_took():
    with pytest.raises(MemoryError, match="Out of memory allocating"):
        headroom.claim((1000, 2**60))
    headroom.claim((1000, 0))


def test_a_program_beyond_the_memory_of_the_machine_may_lack_it(monkeypatch):
    assert not headroom.may_lack((100, 100))
    assert not headroom.may_lack(())
    assert headroom.may_lack((100, 2**60))


def test_without_memory_for_its_code_no_program_is_loaded(monkeypatch, scarce):
    monkeypatch.setattr(headroom, "_TO_LOAD", 2**60)
    with pytest.raises(OutOfMemoryError, match="a program's code"):
        programs.compiled(lambda x: x + 4, "add_four")(jnp.ones(3))
