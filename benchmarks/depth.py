"""The first call of a compiled training step, for models that repeat a part many times.

Each row is a new process without a persistent cache, in seconds of CPU time. The peer is the same
step in JAX by hand; the other columns are flambeau with and without its native kernels, and the
ratio of many parts to a quarter of them, which is 4 if the time grows with their number.

    python benchmarks/depth.py                every case
    python benchmarks/depth.py --only cells   only cases whose name contains this
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _results import keep

WIDTH, BATCH = 32, 16
COLUMNS = {
    "compiled": ("flambeau", {}),
    "no kernels": ("flambeau", {"FLAMBEAU_KERNELS": "0"}),
    "JAX by hand": ("jax", {}),
}


def layers(lib: Any, count: int) -> tuple[Any, Any]:
    """Residual layers with a normalization and two products each."""

    class Layer(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = lib.nn.LayerNorm(WIDTH)
            self.up, self.down = lib.nn.Linear(WIDTH, 64), lib.nn.Linear(64, WIDTH)

        def forward(self, x: Any) -> Any:
            return x + self.down(lib.nn.functional.gelu(self.up(self.norm(x))))

    return lib.nn.Sequential(*(Layer() for _ in range(count))), lib.randn(BATCH, WIDTH)


def dropout(lib: Any, count: int) -> tuple[Any, Any]:
    """A perceptron with dropout after each layer."""

    def layer() -> Any:
        return lib.nn.Sequential(lib.nn.Linear(WIDTH, WIDTH), lib.nn.Tanh(), lib.nn.Dropout(0.1))

    return lib.nn.Sequential(*(layer() for _ in range(count))), lib.randn(BATCH, WIDTH)


def cells(lib: Any, count: int) -> tuple[Any, Any]:
    """A loop over an LSTM cell."""

    class Net(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = lib.nn.LSTMCell(WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            state, found = None, []
            for part in x:
                state = self.cell(part, state)
                found.append(state[0])
            return lib.stack(found)

    return Net(), lib.randn(count, BATCH, WIDTH)


def experts(lib: Any, count: int) -> tuple[Any, Any]:
    """A weighted sum of small networks."""

    class Net(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = lib.nn.Linear(WIDTH, count)
            self.experts = lib.nn.ModuleList(lib.nn.Linear(WIDTH, WIDTH) for _ in range(count))

        def forward(self, x: Any) -> Any:
            weights = self.gate(x).softmax(-1)
            return sum(weights[:, i : i + 1] * each(x) for i, each in enumerate(self.experts))

    return Net(), lib.randn(BATCH, WIDTH)


def dense(lib: Any, count: int) -> tuple[Any, Any]:
    """Layers whose results stand beside all results before them."""

    class Layer(lib.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm, self.linear = lib.nn.LayerNorm(width), lib.nn.Linear(width, 8)

        def forward(self, x: Any) -> Any:
            return lib.cat([x, self.linear(self.norm(x)).relu()], 1)

    parts = (Layer(WIDTH + 8 * i) for i in range(count))
    return lib.nn.Sequential(*parts), lib.randn(BATCH, WIDTH)


def in_jax(name: str, count: int) -> Callable[[], Any]:
    """The same in JAX."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    source = np.random.default_rng(0)

    def matrix(*shape: int) -> Any:
        return jnp.asarray(source.standard_normal(shape) * 0.1, jnp.float32)

    square = [{"w": matrix(WIDTH, WIDTH), "b": matrix(WIDTH)} for _ in range(count)]
    x = matrix(BATCH, WIDTH)

    def normalized(x: Any, scale: Any, shift: Any) -> Any:
        centered = x - x.mean(-1, keepdims=True)
        deviation = jnp.sqrt(jnp.square(centered).mean(-1, keepdims=True) + 1e-5)
        return centered / deviation * scale + shift

    def of_layers(params: Any, x: Any, key: Any) -> Any:
        for each in params:
            up = normalized(x, each["scale"], each["shift"]) @ each["up"] + each["b"]
            x = x + jax.nn.gelu(up, approximate=False) @ each["down"] + each["c"]
        return x

    def of_dropout(params: Any, x: Any, key: Any) -> Any:
        for each, own in zip(params, jax.random.split(key, count), strict=True):
            kept = jax.random.bernoulli(own, 0.9, (BATCH, WIDTH))
            x = jnp.where(kept, jnp.tanh(x @ each["w"] + each["b"]) / 0.9, 0)
        return x

    def of_cells(params: Any, x: Any, key: Any) -> Any:
        hidden = memory = jnp.zeros((BATCH, WIDTH))
        found = []
        for part in x:
            gates = part @ params["input"] + hidden @ params["hidden"] + params["b"]
            i, f, g, o = jnp.split(gates, 4, -1)
            memory = jax.nn.sigmoid(f) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(memory)
            found.append(hidden)
        return jnp.stack(found)

    def of_experts(params: Any, x: Any, key: Any) -> Any:
        weights = jax.nn.softmax(x @ params["gate"])
        found = [x @ each["w"] + each["b"] for each in params["experts"]]
        return sum(weights[:, i : i + 1] * each for i, each in enumerate(found))

    def of_dense(params: Any, x: Any, key: Any) -> Any:
        for each in params:
            found = normalized(x, each["scale"], each["shift"]) @ each["w"] + each["b"]
            x = jnp.concatenate([x, jax.nn.relu(found)], 1)
        return x

    widths = [WIDTH + 8 * i for i in range(count)]
    growing = [
        {"scale": jnp.ones(n), "shift": jnp.zeros(n), "w": matrix(n, 8), "b": matrix(8)}
        for n in widths
    ]
    wide = [
        {"scale": jnp.ones(WIDTH), "shift": jnp.zeros(WIDTH), "up": matrix(WIDTH, 64),
         "b": matrix(64), "down": matrix(64, WIDTH), "c": matrix(WIDTH)}
        for _ in range(count)
    ]  # fmt: skip
    gates = {each: matrix(WIDTH, 4 * WIDTH) for each in ("input", "hidden")}
    model, params, given = {
        "layers": (of_layers, wide, x),
        "dropout": (of_dropout, square, x),
        "cells": (of_cells, {**gates, "b": matrix(4 * WIDTH)}, matrix(count, BATCH, WIDTH)),
        "dense": (of_dense, growing, x),
        "experts": (of_experts, {"gate": matrix(WIDTH, count), "experts": square}, x),
    }[name]
    state = params, jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params)

    @jax.jit
    def update(state: Any, x: Any, key: Any) -> Any:
        params, first, second = state
        loss = lambda params: jnp.square(model(params, x, key)).mean()  # noqa: E731
        value, gradients = jax.value_and_grad(loss)(params)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        params = jax.tree.map(
            lambda p, m, v: p * (1 - 1e-5) - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, first, second
        )
        return value, (params, first, second)

    return lambda: float(update(state, given, jax.random.key(0))[0])


# The number of parts.
CASES = {
    "64 residual layers": (layers, 64),
    "128 layers with dropout": (dropout, 128),
    "an LSTM cell, 64 steps": (cells, 64),
    "48 experts": (experts, 48),
    "32 layers beside each other": (dense, 32),
}


def child(case: str, count: int, library: str) -> float:
    """The seconds of CPU time of the first call in this process."""
    build, _ = CASES[case]
    if library == "jax":
        run = in_jax(build.__name__, count)
    else:
        import flambeau as lib

        lib.manual_seed(0)
        model, x = build(lib, count)
        optimizer = lib.optim.AdamW(model.parameters())

        @lib.compile(fullgraph=True)
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        def run() -> float:
            return step(x).item()

    began = time.process_time()
    run()
    return time.process_time() - began


def measured(case: str, count: int, library: str, variables: dict[str, str]) -> float:
    """`child` in a process of its own."""
    here = Path(__file__).resolve()
    kept = {key: each for key, each in os.environ.items() if not key.startswith("FLAMB")}
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(here.parents[1]), "XDG_CACHE_HOME": folder,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, str(here), "--child", case, str(count), library],
            env=kept | own | variables, capture_output=True, text=True, check=True,
        )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Run all rows and print the table, or run as one of their processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", metavar="CASE")
    parser.add_argument("--child", nargs=3, metavar=("CASE", "COUNT", "LIBRARY"))
    options = parser.parse_args()
    if options.child:
        case, count, library = options.child
        print(json.dumps(child(case, int(count), library)))
        return
    has_kernels = importlib.util.find_spec("flambeau_kernels") is not None
    rows = {}
    titles = ("seconds", "compiled", "no kernels", "growth")
    print(f"{'ratios to JAX by hand':28}", *(f"{each:>12}" for each in titles))
    for case, (_, count) in CASES.items():
        if options.only not in case:
            continue
        seconds = {
            column: measured(case, count, *given)
            for column, given in COLUMNS.items()
            if has_kernels or column != "no kernels"
        }
        base = seconds.pop("JAX by hand")
        row = {column: each / base for column, each in seconds.items()}
        row["growth"] = seconds["compiled"] / measured(case, count // 4, *COLUMNS["compiled"])
        rows[case] = row
        cells = (base, *(row.get(each, 0) for each in titles[1:]))
        print(f"{case:28}", *(f"{each:12.2f}" for each in cells), flush=True)
    if not options.only:
        keep("depth", rows)


if __name__ == "__main__":
    main()
