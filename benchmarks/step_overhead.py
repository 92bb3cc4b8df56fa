"""The overhead of a compiled step: flambeau, plain JAX, and another version of flambeau.

The steps have little arithmetic, so that the program lookup, its guards and the writes dominate: a
perceptron that clears its gradients last or first, and a block whose layers and settings are in
lists and dictionaries. Plain JAX updates the same weights, and returns the gradients where the step
keeps them.

    python benchmarks/step_overhead.py
    python benchmarks/step_overhead.py --before PATH      also a checkout of another commit

Each version is a process, and the measurements are interleaved: each round times each version once,
in alternating order. The output is the ratios of medians to plain JAX.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("FLAMBEAU_INTERPRET", "0")

ROUNDS, SECONDS = 15, 0.1
SIZES = (64, 128, 128, 10)
RATE = 0.01


def flambeau_steps():
    """The steps with flambeau, each compiled."""
    import flambeau
    from flambeau import nn
    from flambeau.nn import functional as F

    flambeau.manual_seed(0)
    x, y = flambeau.randn(32, 64), flambeau.randint(10, (32,))

    def perceptron(clears_first):
        layers = [nn.Linear(m, n) for m, n in pairwise(SIZES)]
        model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
        optimizer = flambeau.optim.SGD(model.parameters(), lr=RATE)

        @flambeau.compile
        def step(x, y):
            if clears_first:
                optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if not clears_first:
                optimizer.zero_grad()
            return loss

        return lambda: step(x, y).jax()

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            layers = [nn.Linear(m, n) for m, n in pairwise(SIZES)]
            self.layers = nn.ModuleList(layers)
            self.scales = [1.0, 0.5, 2.0]
            self.settings = {"activation": [F.relu, F.relu, None]}

        def forward(self, x):
            places = zip(self.layers, self.scales, self.settings["activation"], strict=True)
            for layer, scale, activation in places:
                x = layer(x) * scale
                if activation is not None:
                    x = activation(x)
            return x

    def lists():
        model = Block()
        optimizer = flambeau.optim.SGD(model.parameters(), lr=RATE)

        @flambeau.compile
        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return lambda: step(x, y).jax()

    return {
        "perceptron, zero_grad() last": perceptron(False),
        "perceptron, zero_grad() first": perceptron(True),
        "block with lists": lists(),
    }


def jax_steps():
    """The steps in plain JAX."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((32, 64), dtype=np.float32))
    y = jnp.asarray(rng.integers(0, 10, 32))

    def step_of(scales, keeps_gradients):
        def loss_of(weights, x, y):
            for number, (w, b) in enumerate(weights):
                x = (x @ w + b) * scales[number]
                x = jnp.maximum(x, 0) if number < len(weights) - 1 else x
            scores = jax.nn.log_softmax(x)
            return -jnp.take_along_axis(scores, y[:, None], 1).mean()

        def step(weights, x, y):
            loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
            weights = jax.tree.map(lambda w, g: w - RATE * g, weights, gradients)
            return (loss, weights, gradients) if keeps_gradients else (loss, weights)

        weights = [
            (jnp.asarray(rng.standard_normal((m, n), dtype=np.float32) * 0.1), jnp.zeros(n, "f4"))
            for m, n in pairwise(SIZES)
        ]
        kept = []
        jitted = jax.jit(step, donate_argnums=0)

        def run():
            nonlocal weights
            loss, weights, *kept[:] = jitted(weights, x, y)
            return loss

        return run

    ones = [1.0, 1.0, 1.0]
    return {
        "perceptron, zero_grad() last": step_of(ones, False),
        "perceptron, zero_grad() first": step_of(ones, True),
        "block with lists": step_of([1.0, 0.5, 2.0], False),
    }


def serve(which):
    """Time the step named by each line of the input, and print the seconds of one call."""
    import gc

    import jax

    steps = jax_steps() if which == "jax" else flambeau_steps()

    def seconds(step, calls):
        gc.collect()
        start = time.perf_counter()
        for _ in range(calls):
            result = step()
        jax.block_until_ready(result)
        return (time.perf_counter() - start) / calls

    calls = {}
    for name, step in steps.items():
        seconds(step, 20)
        calls[name] = max(1, int(SECONDS / seconds(step, 50)))
    print("\n".join(steps), "", sep="\n", flush=True)
    for line in sys.stdin:
        print(seconds(steps[line.rstrip()], calls[line.rstrip()]), flush=True)


class Version:
    """A process that times steps on request."""

    def __init__(self, which, path):
        environment = {**os.environ, "PYTHONPATH": str(path)}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", which],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.names = list(iter(lambda: self.process.stdout.readline().rstrip(), ""))

    def seconds(self, name):
        """The seconds of one call of a step."""
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def main():
    """Time all versions, interleaved, and print their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path)
    parser.add_argument("--serve")
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    here = Path(__file__).resolve().parents[1]
    versions = {"JAX by hand": Version("jax", here), "flambeau": Version("flambeau", here)}
    if options.before:
        versions["before"] = Version("flambeau", options.before.resolve())
    times = {}
    for round_number in range(ROUNDS):
        for name in versions["flambeau"].names:
            for version in list(versions)[:: (-1) ** round_number]:
                taken = versions[version].seconds(name)
                times.setdefault((name, version), []).append(taken)
    print("a compiled step, ratio of medians to JAX by hand")
    for name in versions["flambeau"].names:
        medians = {each: statistics.median(times[name, each]) for each in versions}
        base = medians.pop("JAX by hand")
        ratios = "   ".join(f"{each} {seconds / base:.2f}" for each, seconds in medians.items())
        print(f"{name:32} {base * 1e6:7.1f} µs   {ratios}", flush=True)


if __name__ == "__main__":
    main()
