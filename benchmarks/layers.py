"""Forward and backward of one layer of each family, as a ratio to PyTorch eager.

Each layer runs at a common size on the same inputs with PyTorch eager, ``torch.compile``, flambeau
eager, flambeau compiled (forward and backward in one program), and flambeau compiled without the
native kernels. The measurements are interleaved, each library in its own process. Each is a
training step without an optimizer: the layer, ``backward`` from a fixed cotangent, and the
gradients of the parameters and of the inputs.

    python benchmarks/layers.py                    time of the process, everything on one core
    python benchmarks/layers.py --all-cores        wall clock, on the cores that all choose
    python benchmarks/layers.py --device cuda      wall clock, on a GPU
    python benchmarks/layers.py --only Conv LSTM   only layers whose name contains one of these

Wall clock needs an otherwise idle machine.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from _beside_pytorch import run  # isort: skip
from _cores import OPTIONS  # isort: skip

import numpy as np

#: The maximum ratio of a compiled layer, or a convolution, to PyTorch eager.
LIMIT, LIMIT_OF_CONVOLUTIONS = 1.1, 1.0

rng = np.random.default_rng(0)


class Case(NamedTuple):
    """A layer and its inputs.

    Attributes:
        name: The name in the table.
        build: Builds the layer, with either library.
        inputs: NumPy arrays; floating-point ones require gradients.
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
    """Adapts a layer with other arguments to the common signature."""

    def __init__(self, layer: Any, call: Callable[..., Any]) -> None:
        self.layer, self.call = layer, call

    def parameters(self) -> Any:
        return self.layer.parameters()

    def to(self, device: str) -> None:
        self.layer.to(device)

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
    Case("AdaptiveMaxPool2d 7", lambda lib: lib.nn.AdaptiveMaxPool2d(7), (IMAGES,)),
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


def prepare(lib: ModuleType, name: str, compiles: bool) -> tuple[Callable[[], list[Any]], float]:
    """A step of the layer of this name, and the mean magnitude of its output."""
    case = next(each for each in CASES if each.name == name)
    lib.manual_seed(0)
    layer = case.build(lib)
    if hasattr(layer, "to"):
        layer.to(OPTIONS.device)
    inputs = [lib.from_numpy(each).to(OPTIONS.device) for each in case.inputs]
    leaves = [each.requires_grad_() for each in inputs if each.is_floating_point()]
    leaves += list(getattr(layer, "parameters", list)())

    def forward() -> Any:
        result = layer(*inputs)
        return result[0] if isinstance(result, tuple) else result

    first = forward().detach()
    cotangent = lib.from_numpy(np.asarray(normal(*first.shape))).to(OPTIONS.device)

    def step() -> Any:
        for leaf in leaves:
            leaf.grad = None
        result = forward()
        result.backward(cotangent)
        return result

    if compiles:
        step = lib.compile(step)
    return lambda: [step(), *(leaf.grad for leaf in leaves)], first.abs().mean().item()


def limits_of(case: Case) -> dict[str, float]:
    return {"PyTorch": LIMIT_OF_CONVOLUTIONS if case.name.startswith("Conv") else LIMIT}


if __name__ == "__main__":
    run("forward and backward", prepare, {case.name: limits_of(case) for case in CASES})
