"""The speedup of each form of `flambeau.ops.cpu_forms`: the same step without and with it.

The forms exist only because XLA's compiler for CPUs is slow for the operators' default forms. Each
row is a forward and backward of one compiled layer in two processes, the second with
``FLAMBEAU_CPU_FORMS=0``; the measurements are interleaved, and the row shows the median ratio. A
form whose ratio is not above 1 with a newer JAX can be removed.

    python benchmarks/cpu_forms.py                  all forms
    python benchmarks/cpu_forms.py --only depthwise
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from _cores import is_asked_for  # isort: skip

import _timing
import jax
import numpy as np

import flambeau
from flambeau import nn

TURNS = 3
rng = np.random.default_rng(0)


class Case(NamedTuple):
    """A layer that uses the form, and the shape of its input."""

    form: str
    build: Callable[[], Callable[..., Any]]
    shape: tuple[int, ...]


class Brief(nn.Module):
    """Converts to bfloat16."""

    def forward(self, x: flambeau.Tensor) -> flambeau.Tensor:
        return x.bfloat16()


CASES = [
    Case("plain_convolution: Conv2d 3x3", lambda: nn.Conv2d(32, 32, 3, padding=1),
         (16, 32, 32, 32)),
    Case("convolutions: Conv2d 3x3, 3 channels", lambda: nn.Conv2d(3, 32, 3, padding=1),
         (16, 3, 32, 32)),
    Case("convolutions: ConvTranspose2d", lambda: nn.ConvTranspose2d(32, 32, 4, 2, 1),
         (8, 32, 16, 16)),
    Case("depthwise: Conv2d 3x3, 32 groups", lambda: nn.Conv2d(32, 32, 3, padding=1, groups=32),
         (16, 32, 32, 32)),
    Case("volumes: Conv3d 3x3x3", lambda: nn.Conv3d(16, 16, 3, padding=1), (2, 16, 8, 16, 16)),
    Case("shared_product: Conv2d 1x1", lambda: nn.Conv2d(32, 64, 1), (16, 32, 32, 32)),
    Case("matrix_product: Linear, ReLU, Linear",
         lambda: nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)),
         (1024, 256)),
    Case("matrix_product: Linear in bfloat16",
         lambda: nn.Sequential(Brief(), nn.Linear(1024, 1024, dtype=flambeau.bfloat16)),
         (512, 1024)),
    Case("matrix_product: one row in bfloat16",
         lambda: nn.Sequential(Brief(), nn.Linear(4096, 4096, dtype=flambeau.bfloat16)
                               .requires_grad_(False)),
         (1, 4096)),
    Case("fused_sum: LayerNorm", lambda: nn.LayerNorm(256), (16, 64, 256)),
    Case("linear_maps: LSTM", lambda: nn.LSTM(64, 128), (64, 32, 64)),
    Case("linear_maps: AdaptiveAvgPool2d 7", lambda: nn.AdaptiveAvgPool2d(7), (16, 32, 32, 32)),
    Case("linear_maps: Softmax", lambda: nn.Softmax(-1), (64, 4096)),
    Case("running: cumsum, last dimension", lambda: lambda x: flambeau.cumsum(x, -1), (64, 4096)),
    Case("running: cumsum, first dimension", lambda: lambda x: flambeau.cumsum(x, 0), (64, 4096)),
]  # fmt: skip


def step_of(case: Case) -> Callable[[], object]:
    """A compiled forward and backward, which waits for all results."""
    layer = case.build()
    input = flambeau.from_numpy(rng.standard_normal(case.shape, np.float32)).requires_grad_()
    parameters = getattr(layer, "parameters", list)()
    leaves = [each for each in (input, *parameters) if each.requires_grad]

    @flambeau.compile
    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        result = layer(input)
        result = result[0] if isinstance(result, tuple) else result
        (result * result).sum().backward()

    def run() -> object:
        step()
        return [leaf.grad.jax() for leaf in leaves]

    return run


def times() -> dict[str, float]:
    """Seconds per step in this process, by case."""
    asked = [case for case in CASES if is_asked_for(case.form)]
    return {
        case.form: _timing.medians({"step": step_of(case)}, 5, 0.05, time.process_time)["step"]
        for case in asked
    }


def times_elsewhere(switch: str) -> dict[str, float]:
    """`times` in a new process, with the forms on (``"1"``) or off (``"0"``)."""
    environment = {**os.environ, "FLAMBEAU_CPU_FORMS": switch, "FLAMBEAU_TIMES_ONLY": "1"}
    command = [sys.executable, __file__, *sys.argv[1:]]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print the speedup of each form."""
    if "FLAMBEAU_TIMES_ONLY" in os.environ:
        print(json.dumps(times()))
        return
    turns = [(times_elsewhere("1"), times_elsewhere("0")) for _ in range(TURNS)]
    print(f"JAX {jax.__version__}, process time on one core, medians of {TURNS} turns")
    print(f"{'form':40} {'with it':>10} {'without, times as long':>24}")
    for form in turns[0][0]:
        own = statistics.median(on[form] for on, _ in turns)
        ratio = statistics.median(off[form] / on[form] for on, off in turns)
        print(f"{form:40} {own * 1e3:7.2f} ms {ratio:24.2f}")


if __name__ == "__main__":
    main()
