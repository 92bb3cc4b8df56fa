"""The cost of eager code before its programs are compiled: new lengths and first steps.

Each row is a new process, measured in seconds of CPU time. flambeau runs with and without its first
gear, the op-by-op interpreter, with an empty persistent cache (cold) and with the cache that the
cold process has filled (warm), as pip installs it, without the native kernels; plain JAX is one
jitted function for each length, also cold and warm.

    python benchmarks/gears.py                 every case
    python benchmarks/gears.py --only lengths  only cases whose name contains this
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from _results import keep

LENGTHS = range(9, 19)


class Peer(NamedTuple):
    """A library, with the environment variables of its processes.

    Attributes:
        name: The name of the row.
        library: The module's name.
        variables: The environment variables.
        keeps: Whether it has a persistent cache.
    """

    name: str
    library: str
    variables: dict[str, str]
    keeps: bool = True


PEERS = [
    Peer("flambeau", "flambeau", {"FLAMBEAU_INTERPRET": "64", "FLAMBEAU_KERNELS": "0"}),
    Peer(
        "flambeau, all compiled", "flambeau", {"FLAMBEAU_INTERPRET": "0", "FLAMBEAU_KERNELS": "0"}
    ),
    Peer("PyTorch eager", "torch", {}, keeps=False),
    Peer("JAX by hand", "jax", {}),
]


def lengths(library: str) -> Callable[[], Any]:
    """Ten steps of a Transformer encoder, each of a new length."""
    if library == "jax":
        return _lengths_in_jax()
    lib: Any = importlib.import_module(library)
    lib.manual_seed(0)
    layer = lib.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = lib.nn.TransformerEncoder(layer, 2)
    adam = lib.optim.AdamW(model.parameters())

    def step(length: int) -> float:
        loss = model(lib.randn(4, length, 32)).square().mean()
        loss.backward()
        adam.step()
        adam.zero_grad()
        return loss.item()

    step(8)
    return lambda: [step(each) for each in LENGTHS]


def _lengths_in_jax() -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    source = np.random.default_rng(0)

    def matrix(*shape: int) -> Any:
        return jnp.asarray(source.standard_normal(shape) * 0.1, jnp.float32)

    shapes = {"in": (32, 96), "out": (32, 32), "up": (32, 64), "down": (64, 32)}
    layers = [{name: matrix(*shape) for name, shape in shapes.items()} for _ in range(2)]
    state = layers, jax.tree.map(jnp.zeros_like, layers), jax.tree.map(jnp.zeros_like, layers)

    def normalized(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def loss_of(layers: Any, x: Any) -> Any:
        for layer in layers:
            parts = (x @ layer["in"]).reshape(*x.shape[:2], 3, 4, 8)
            mixed = jax.nn.dot_product_attention(*(parts[:, :, i] for i in range(3)))
            x = normalized(x + mixed.reshape(x.shape) @ layer["out"])
            x = normalized(x + jax.nn.relu(x @ layer["up"]) @ layer["down"])
        return jnp.square(x).mean()

    @jax.jit
    def update(state: Any, x: Any) -> Any:
        layers, first, second = state
        loss, gradients = jax.value_and_grad(loss_of)(layers, x)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        layers = jax.tree.map(
            lambda p, m, v: p * (1 - 1e-5) - 1e-3 * m / (jnp.sqrt(v) + 1e-8), layers, first, second
        )
        return loss, (layers, first, second)

    def step(length: int) -> float:
        nonlocal state
        loss, state = update(state, jnp.asarray(source.standard_normal((4, length, 32)), "f4"))
        return float(loss)

    step(8)
    return lambda: [step(each) for each in LENGTHS]


def first_step(model: str) -> Callable[[str], Callable[[], Any]]:
    """The first step of a model of `first_step.py`, without its construction."""

    def begun(library: str) -> Callable[[], Any]:
        import first_step

        starts = {
            "flambeau": first_step.flambeau_eager,
            "torch": first_step.pytorch_eager,
            "jax": first_step.jax_by_hand,
        }
        return starts[library]()(model)

    return begun


CASES = {
    "ten new lengths": lengths,
    "first step, perceptron": first_step("perceptron"),
    "first step, residual network": first_step("residual_network"),
    "first step, GPT": first_step("gpt"),
}

# The maximum ratios to flambeau without the gear, cold and warm.
GOALS = {"ten new lengths": (0.11, 0.4)} | dict.fromkeys([*CASES][1:], (0.25, 1.0))


def child(case: str, library: str) -> float:
    """The seconds of CPU time of a case in this process."""
    run = CASES[case](library)
    began = time.process_time()
    run()
    return time.process_time() - began


def measured(case: str, peer: Peer) -> list[float]:
    """The seconds of a cold process, and of a warm one."""
    here = Path(__file__).resolve()
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": str(here.parents[1]),
            "XDG_CACHE_HOME": folder,
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        kept = {
            key: each for key, each in os.environ.items() if not key.startswith(("JAX_", "FLAMB"))
        }
        command = [sys.executable, str(here), "--child", case, peer.library]
        return [
            json.loads(
                subprocess.run(
                    command,
                    env=kept | variables | peer.variables,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout.splitlines()[-1]
            )
            for _ in range(2 if peer.keeps else 1)
        ]


def main() -> None:
    """Run all rows and print the table, or run as one of their processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="CASE")
    parser.add_argument("--child", nargs=2, metavar=("CASE", "LIBRARY"))
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child)))
        return
    print(f"{'seconds of CPU time':32}{'cold':>9}{'warm':>9}   ratios to all compiled")
    kept = {}
    for case in CASES:
        if options.only not in case:
            continue
        rows = {peer.name: measured(case, peer) for peer in PEERS}
        kept[case] = {
            f"{name}, {state}": seconds / rows["flambeau, all compiled"][0]
            for name, times in rows.items()
            for state, seconds in zip(("cold", "warm"), times, strict=False)
        }
        base = rows["flambeau, all compiled"]
        print(f"\n{case}")
        for name, times in rows.items():
            cells = "".join(f"{each:9.2f}" for each in times)
            ratios = "".join(
                f"{each / other:9.2f}" for each, other in zip(times, base, strict=False)
            )
            print(f"{name:32}{cells:18}{ratios}", flush=True)
        for state, mine, other, goal in zip(
            ("cold", "warm"), rows["flambeau"], base, GOALS[case], strict=True
        ):
            verdict = "met" if mine / other <= goal else "NOT MET in this run"
            print(f"{state}: {mine / other:.2f} (at most {goal:.2f}): {verdict}", flush=True)
    if not options.only:
        keep("gears", kept)


if __name__ == "__main__":
    main()
