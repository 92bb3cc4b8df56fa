"""The cost of `compiler.checks` in compiled steps of two language models with one hidden layer.

    python benchmarks/checks.py

The output is the median time of some steps with each setting, and its ratio to steps without
checks. A call with checks waits for its result, so the smaller the step, the higher the ratio.
"""

from __future__ import annotations

import os
from collections.abc import Callable

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from _timing import medians, table

import flambeau
from flambeau import nn
from flambeau.nn import functional as F

# The words, the width, and the tokens of a batch.
SIZES = {"small": (64, 16, 32), "large": (2000, 128, 256)}
STEPS = 10
OFF = "no checks"
SETTINGS = {
    OFF: {},
    "indices": {"indices": True},
    "nan": {"nan": True},
    "indices and nan": {"indices": True, "nan": True},
}


def steps_with(options, words, width, tokens):
    """Some training steps, compiled with these checks."""
    flambeau.manual_seed(0)
    layers = nn.Embedding(words, width), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, words)
    model = nn.Sequential(*layers)
    optimizer = flambeau.optim.AdamW(model.parameters(), lr=1e-3)
    given, following = flambeau.randint(words, (2, tokens)).unbind()

    @flambeau.compile(fullgraph=True)
    def step(given, following):
        loss = F.cross_entropy(model(given), following)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def run():
        # Entering the block sends the next call to the slow path.
        with flambeau.compiler.checks(**options):
            for _ in range(STEPS - 1):
                step(given, following)
            return step(given, following).jax()

    return run


if __name__ == "__main__":
    for name, sizes in SIZES.items():
        programs: dict[str, Callable[[], object]] = {
            key: steps_with(options, *sizes) for key, options in SETTINGS.items()
        }
        print(f"{name}\n{table(medians(programs), OFF)}\n")
