import subprocess
import sys

import pytest

import flambeau
from flambeau import nn
from flambeau.fx.proxy import proxies_expected
from flambeau.nn import functional as F
from flambeau.overrides import TorchFunctionMode


class Silent(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def beside_proxies(x):
    with proxies_expected():
        return flambeau.tensor(x)


def in_a_mode(x):
    with Silent():
        return F.softmax(x)


CALLS = {
    "function": F.softmax,
    "layer": lambda x: nn.Softmax()(x),
    "layer in layers": lambda x: nn.Sequential(nn.Sequential(nn.Softmax()))(x),
    "function seen by a mode": in_a_mode,
    "copy beside proxies": beside_proxies,
    "copy": lambda x: flambeau.tensor(x),
    "copy by a method": lambda x: x.new_tensor(x),
    "compiled function": flambeau.compile(lambda x: F.softmax(x)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_warning_names_the_line_that_called(call):
    with pytest.warns(UserWarning, match="dim|detach") as caught:
        call(flambeau.ones(2, 3))
    assert {each.filename for each in caught} == {__file__}


@pytest.mark.parametrize(
    ("before", "warns"),
    [
        ("jnp.zeros(3)", True),
        ("pass", False),
        ("jax.config.update('jax_enable_x64', True); jnp.zeros(3)", False),
    ],
)
def test_an_import_after_jax_has_been_used_tells_of_64_bit_types(before, warns):
    code = f"import jax, jax.numpy as jnp\n{before}\nimport flambeau"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = "<string>:3: UserWarning: flambeau switches on JAX's 64-bit types" in done.stderr
    assert told is warns
