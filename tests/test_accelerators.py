"""Programs for accelerators that are not there.

JAX writes programs for other devices than the machine has. So this shows that every layer and its
gradients have one in the forms that are meant for accelerators, and not what they compute there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# In a process of its own, which takes itself to have an accelerator from the start.
SCRIPT = """
import json, sys
import jax
import jax.numpy as jnp
import flambeau
from flambeau import nn
from flambeau.core.devices import compiler

compiler.available_devices = lambda: ["cpu", f"{sys.argv[1]}:0"]
compiler.cuda_capability = lambda: (0, 0)
from flambeau.ops.neural import fused_attention
fused_attention.cuda_capability = lambda: (0, 0)
assert not compiler.only_cpu()

from tests.nn.test_every_layer import EXAMPLES

def total(tensors):
    return sum(each.float().sum() for each in jax.tree.leaves(tensors, is_leaf=is_tensor)
               if is_tensor(each) and each.is_floating_point())

def is_tensor(value):
    return isinstance(value, flambeau.Tensor)

written, failed = 0, {}
for name, example in EXAMPLES.items():
    if name.startswith(("Lazy", "Fractional")) or name == "AdaptiveLogSoftmaxWithLoss":
        continue
    layer = getattr(nn, name)(*example.args).eval()
    floats = [i for i, each in enumerate(example.inputs)
              if is_tensor(each) and each.is_floating_point()]

    def loss(params, *arrays):
        inputs = list(example.inputs)
        for i, array in zip(floats, arrays):
            inputs[i] = flambeau.from_jax(array)
        params = {name: flambeau.from_jax(each) for name, each in params.items()}
        return total(flambeau.func.functional_call(layer, params, tuple(inputs))).jax()

    params = {name: each.detach().jax() for name, each in layer.named_parameters()}
    arrays = [example.inputs[i].jax() for i in floats]
    slopes = jax.grad(loss, tuple(range(1 + len(arrays))))
    try:
        text = jax.jit(slopes).trace(params, *arrays).lower(lowering_platforms=(sys.argv[1],))
        written += "func.func" in text.as_text()
    except Exception as error:
        failed[name] = repr(error)[:300]
print(json.dumps([written, failed]))
"""


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_every_layer_has_a_program_for_it(platform):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, platform],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent,
        env={**os.environ, "FLAMBEAU_CACHE": "0"},  # The machine is not what it takes itself for.
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written, failed = json.loads(done.stdout.splitlines()[-1])
    assert failed == {}
    assert written > 100
