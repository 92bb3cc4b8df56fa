"""Forward and backward of one layer of each family, as a ratio to PyTorch eager.

Every layer runs at a customary size on the same inputs with PyTorch, with flambeau eager and with
flambeau compiled (forward and backward in one program), in turn in one run. What is timed is a
training step without an optimizer: the layer, ``backward`` from a fixed cotangent, and the
gradients of the parameters and of the inputs.

    python benchmarks/layers.py                    time of the process, everything on one core
    python benchmarks/layers.py --all-cores        wall clock, on the cores that both choose
    python benchmarks/layers.py --only Conv LSTM   only layers whose name has one of these

Wall clock needs an otherwise idle machine: on a busy one PyTorch's threads wait for each other and
the ratios mean nothing.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from _beside_pytorch import ROUNDS, WHAT, is_asked_for, medians  # isort: skip

import numpy as np
import torch

import flambeau

LIMIT = 1.5

rng = np.random.default_rng(0)


class Case(NamedTuple):
    """A layer and what it is given.

    Attributes:
        name: How the table calls it.
        build: The layer, from either library.
        inputs: NumPy arrays; those of floats take gradients.
    """

    name: str
    build: Callable[[ModuleType], Callable[..., Any]]
    inputs: tuple[np.ndarray, ...]


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def integers(high: int, *shape: int) -> np.ndarray:
    return rng.integers(0, high, shape)


def attention(lib: ModuleType) -> Callable[..., Any]:
    layer = lib.nn.MultiheadAttention(256, 8, batch_first=True)
    return Wrapped(layer, lambda x: layer(x, x, x, need_weights=False))


class Wrapped:
    """A layer that is called with other arguments than a plain one."""

    def __init__(self, layer: Any, call: Callable[..., Any]) -> None:
        self.layer, self.call = layer, call

    def parameters(self) -> Any:
        return self.layer.parameters()

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)


IMAGES = normal(16, 32, 32, 32)
SMALL_IMAGES = normal(8, 32, 16, 16)
TOKENS = normal(16, 64, 256)
WIDE = normal(64, 4096)
STEPS = normal(64, 32, 64)

CASES = [
    Case("Linear(512, 512)", lambda lib: lib.nn.Linear(512, 512), (normal(256, 512),)),
    Case("Bilinear(64, 64, 32)", lambda lib: lib.nn.Bilinear(64, 64, 32),
         (normal(128, 64), normal(128, 64))),
    Case("Conv1d 3", lambda lib: lib.nn.Conv1d(64, 64, 3, padding=1), (normal(16, 64, 256),)),
    Case("Conv2d 3x3", lambda lib: lib.nn.Conv2d(32, 32, 3, padding=1), (IMAGES,)),
    Case("Conv2d 3x3, 3 channels", lambda lib: lib.nn.Conv2d(3, 32, 3, padding=1),
         (normal(16, 3, 32, 32),)),
    Case("Conv2d 3x3, 2x2 images", lambda lib: lib.nn.Conv2d(256, 256, 3, padding=1),
         (normal(16, 256, 2, 2),)),
    Case("Conv2d 3x3, stride 2", lambda lib: lib.nn.Conv2d(32, 64, 3, 2, 1), (IMAGES,)),
    Case("Conv2d 1x1", lambda lib: lib.nn.Conv2d(32, 64, 1), (IMAGES,)),
    Case("Conv2d 3x3, depthwise", lambda lib: lib.nn.Conv2d(32, 32, 3, padding=1, groups=32),
         (IMAGES,)),
    Case("Conv3d 3x3x3", lambda lib: lib.nn.Conv3d(16, 16, 3, padding=1),
         (normal(2, 16, 8, 16, 16),)),
    Case("ConvTranspose2d 4x4, stride 2", lambda lib: lib.nn.ConvTranspose2d(32, 32, 4, 2, 1),
         (SMALL_IMAGES,)),
    Case("MaxPool2d 2", lambda lib: lib.nn.MaxPool2d(2), (IMAGES,)),
    Case("MaxPool2d 3, stride 2", lambda lib: lib.nn.MaxPool2d(3, 2, 1), (IMAGES,)),
    Case("AvgPool2d 2", lambda lib: lib.nn.AvgPool2d(2), (IMAGES,)),
    Case("AdaptiveAvgPool2d 1", lambda lib: lib.nn.AdaptiveAvgPool2d(1), (IMAGES,)),
    Case("AdaptiveAvgPool2d 7", lambda lib: lib.nn.AdaptiveAvgPool2d(7), (IMAGES,)),
    Case("BatchNorm2d", lambda lib: lib.nn.BatchNorm2d(32), (IMAGES,)),
    Case("InstanceNorm2d", lambda lib: lib.nn.InstanceNorm2d(32, affine=True), (IMAGES,)),
    Case("GroupNorm(8)", lambda lib: lib.nn.GroupNorm(8, 32), (IMAGES,)),
    Case("LayerNorm(256)", lambda lib: lib.nn.LayerNorm(256), (TOKENS,)),
    Case("RMSNorm(256)", lambda lib: lib.nn.RMSNorm(256), (TOKENS,)),
    Case("ReLU", lambda lib: lib.nn.ReLU(), (WIDE,)),
    Case("GELU", lambda lib: lib.nn.GELU(), (WIDE,)),
    Case("SiLU", lambda lib: lib.nn.SiLU(), (WIDE,)),
    Case("Softmax", lambda lib: lib.nn.Softmax(-1), (WIDE,)),
    Case("Dropout(0.5)", lambda lib: lib.nn.Dropout(0.5), (WIDE,)),
    Case("Embedding(10000, 256)", lambda lib: lib.nn.Embedding(10000, 256),
         (integers(10000, 32, 64),)),
    Case("EmbeddingBag(10000, 256)", lambda lib: lib.nn.EmbeddingBag(10000, 256),
         (integers(10000, 64, 32),)),
    Case("RNN(64, 128)", lambda lib: lib.nn.RNN(64, 128), (STEPS,)),
    Case("LSTM(64, 128)", lambda lib: lib.nn.LSTM(64, 128), (STEPS,)),
    Case("GRU(64, 128)", lambda lib: lib.nn.GRU(64, 128), (STEPS,)),
    Case("MultiheadAttention(256, 8)", attention, (TOKENS,)),
    Case("TransformerEncoderLayer(256, 8)",
         lambda lib: lib.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True),
         (normal(8, 64, 256),)),
    Case("CrossEntropyLoss", lambda lib: lib.nn.CrossEntropyLoss(),
         (normal(256, 1000), integers(1000, 256))),
    Case("MSELoss", lambda lib: lib.nn.MSELoss(), (normal(256, 1000), normal(256, 1000))),
    Case("Upsample nearest", lambda lib: lib.nn.Upsample(scale_factor=2), (SMALL_IMAGES,)),
    Case("Upsample bilinear",
         lambda lib: lib.nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
         (SMALL_IMAGES,)),
    Case("PixelShuffle(2)", lambda lib: lib.nn.PixelShuffle(2), (IMAGES,)),
    Case("ReflectionPad2d(1)", lambda lib: lib.nn.ReflectionPad2d(1), (IMAGES,)),
    Case("Unfold 3x3", lambda lib: lib.nn.Unfold(3, padding=1), (SMALL_IMAGES,)),
    Case("cumsum", lambda lib: lambda x: lib.cumsum(x, -1), (WIDE,)),
    Case("cumsum, first dimension", lambda lib: lambda x: lib.cumsum(x, 0), (WIDE,)),
]  # fmt: skip


def step_of(lib: ModuleType, case: Case) -> tuple[Callable[[], Any], Callable[..., Any], list[Any]]:
    """A step without arguments, the function that it calls, and what is differentiated."""
    layer = case.build(lib)
    inputs = [lib.from_numpy(each) for each in case.inputs]
    leaves = [each.requires_grad_() for each in inputs if each.is_floating_point()]
    leaves += list(getattr(layer, "parameters", list)())

    def forward() -> Any:
        result = layer(*inputs)
        return result[0] if isinstance(result, tuple) else result

    cotangent = lib.from_numpy(np.asarray(normal(*forward().shape)))

    def step() -> Any:
        for leaf in leaves:
            leaf.grad = None
        result = forward()
        result.backward(cotangent)
        return result

    return step, forward, leaves


def with_results(step: Callable[[], Any], leaves: list[Any]) -> Callable[[], list[Any]]:
    """``step``, giving all that it computes, for which one can wait."""

    def run() -> list[Any]:
        result = step()
        return [result.jax(), *(leaf.grad.jax() for leaf in leaves)]

    return run


def programs(case: Case) -> dict[str, Callable[[], object]]:
    eager, _, eager_leaves = step_of(flambeau, case)
    compiled, _, compiled_leaves = step_of(flambeau, case)
    return {
        "PyTorch": step_of(torch, case)[0],
        "eager": with_results(eager, eager_leaves),
        "compiled": with_results(flambeau.compile(compiled), compiled_leaves),
    }


def main() -> None:
    """Time every layer and print the ratios, then those that are above the limit."""
    start = time.perf_counter()
    print(f"forward + backward, medians of {ROUNDS} rounds, {WHAT}")
    print(f"{'layer':32} {'PyTorch':>10} {'eager':>7} {'compiled':>9}   (ratios to PyTorch)")
    slow = []
    for case in CASES:
        if not is_asked_for(case.name):
            continue
        times = medians(programs(case))
        base = times["PyTorch"]
        eager, compiled = times["eager"] / base, times["compiled"] / base
        print(f"{case.name:32} {base * 1e3:7.2f} ms {eager:7.2f} {compiled:9.2f}", flush=True)
        if compiled > LIMIT:
            slow.append(f"{case.name} ({compiled:.2f})")
        gc.collect()
    print(f"compiled slower than {LIMIT} times PyTorch in this run: {', '.join(slow) or 'none'}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
