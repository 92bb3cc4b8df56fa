"""Parameters on several devices, in a process that has several."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import warnings

warnings.simplefilter("error")
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import flambeau
from flambeau import optim


def leaf(count, device):
    return flambeau.ones(count, device=device).requires_grad_()


def give_grad(*params):
    for param in params:
        param.grad = flambeau.ones_like(param)


# One optimizer for parameters of two devices; state is where its parameter is.
params = [leaf(2, "cpu"), leaf(3, "cpu:1")]
optimizer = optim.Adam(params, lr=0.5)
for _ in range(2):
    give_grad(*params)
    optimizer.step()
for param, place in zip(params, ("cpu", "cpu:1")):
    np.testing.assert_allclose(param.detach().cpu().numpy(), 0.0, atol=1e-6)
    assert {each.device for each in optimizer.state[param].values()} == {flambeau.device(place)}

# A parameter that moves takes its later steps where it is.
first, second = leaf(2, "cpu"), leaf(2, "cpu")
optimizer = optim.SGD([first, second], lr=0.25)
give_grad(first, second)
optimizer.step()
second.data = second.data.to("cpu:1")
give_grad(first, second)
optimizer.step()
optimizer.step()
assert first.tolist() == second.tolist() == [0.25, 0.25]

# Its state has to come along.
param = leaf(2, "cpu")
optimizer = optim.SGD([param], lr=0.25, momentum=0.5)
give_grad(param)
optimizer.step()
param.data = param.data.to("cpu:1")
give_grad(param)
try:
    optimizer.step()
except RuntimeError as error:
    assert "momentum_buffer on cpu" in str(error), error
else:
    raise AssertionError("state on another device was not noticed")
optimizer.load_state_dict(optimizer.state_dict())
optimizer.step()
assert param.tolist() == [0.375, 0.375]

# State is sharded as its parameter is, and stays so.
mesh = Mesh(np.array(jax.devices()), ("part",))
split, whole = NamedSharding(mesh, PartitionSpec("part")), NamedSharding(mesh, PartitionSpec())


def placed(shape, sharding):
    return flambeau.from_jax(jax.device_put(np.ones(shape, np.float32), sharding))


params = [placed((4, 2), split).requires_grad_(), placed(3, whole).requires_grad_()]
for cls in (optim.AdamW, optim.Adafactor):
    optimizer = cls(params, lr=0.5)
    for _ in range(2):
        params[0].grad, params[1].grad = placed((4, 2), split), placed(3, whole)
        optimizer.step()
    assert params[0].jax().sharding == split
    assert params[1].jax().sharding == whole
optimizer = optim.Adam(params)
optimizer.step()
optimizer.load_state_dict(optimizer.state_dict())
state = optimizer.state[params[0]]
assert state["exp_avg"].jax().sharding == split
assert state["step"].jax().sharding == whole
print("done")
"""


@pytest.fixture(scope="module")
def two_devices():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    return {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}


def test_each_parameter_is_stepped_where_it_is(two_devices):
    command = [sys.executable, "-c", SCRIPT]
    found = subprocess.run(command, env=two_devices, capture_output=True, text=True, check=False)
    assert found.stdout == "done\n", found.stderr
