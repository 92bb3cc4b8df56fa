"""One training step over several devices, in a process that has several."""

import os
import subprocess
import sys

SCRIPT = """
import warnings

warnings.simplefilter("error")
import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

import flambeau
from flambeau import nn, optim

mesh = jax.make_mesh((2,), ("batch",))
split, whole = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())
images = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
labels = np.array([0, 1, 1, 0])


def put(tensor, sharding):
    return flambeau.from_jax(jax.device_put(tensor.jax(), sharding))


def losses(compiled, shared):
    flambeau.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    batch = flambeau.from_numpy(images), flambeau.from_numpy(labels)
    if shared:
        batch = [put(each, split) for each in batch]
        for param in model.parameters():
            param.data = put(param, whole)
    optimizer = optim.AdamW(model.parameters(), lr=0.1)

    def step(x, y):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    if compiled:
        step = flambeau.compile(step)
    found = [step(*batch).item() for _ in range(3)]
    places = {len(each.jax().sharding.device_set) for each in model.parameters()}
    assert places == {2 if shared else 1}, places
    return found


one = losses(compiled=False, shared=False)
assert one[2] < one[0]
np.testing.assert_allclose(losses(compiled=False, shared=True), one, rtol=1e-5)
np.testing.assert_allclose(losses(compiled=True, shared=True), one, rtol=1e-5)
print("done")
"""


def test_a_batch_that_is_spread_over_devices_gives_the_losses_of_one_device():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", SCRIPT]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.stdout == "done\n", found.stderr
