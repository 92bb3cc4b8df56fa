"""The models that benchmarks train, and their training step, for both libraries.

This module imports no library: a timed process imports only its own.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

WORDS, CLASSES = 1000, 10

rng = np.random.default_rng(0)


class Case(NamedTuple):
    """A model and a batch for it.

    Attributes:
        name: The name in the table.
        build: Builds the model, with either library.
        input: The input of the model.
        target: The target classes, of the shape of the logits without the last dimension.
        half: Whether its forward pass is in bfloat16.
    """

    name: str
    build: Callable[[ModuleType], Any]
    input: np.ndarray
    target: np.ndarray
    half: bool = False


def perceptron(lib: ModuleType) -> Any:
    nn = lib.nn
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, CLASSES)
    )


def residual_network(lib: ModuleType) -> Any:
    """A residual network with three stages of two blocks, of 16, 32 and 64 channels."""
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs),
                nn.ReLU(), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
                nn.BatchNorm2d(outputs),
            )  # fmt: skip
            changes = stride > 1 or inputs != outputs
            self.skip = nn.Conv2d(inputs, outputs, 1, stride) if changes else nn.Identity()

        def forward(self, x: Any) -> Any:
            return nn.functional.relu(self.body(x) + self.skip(x))

    blocks = [Block(16, 16, 1), Block(16, 16, 1), Block(16, 32, 2), Block(32, 32, 1),
              Block(32, 64, 2), Block(64, 64, 1)]  # fmt: skip
    first = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    last = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))
    return nn.Sequential(first, *blocks, last)


def gpt(
    lib: ModuleType, depth: int = 4, width: int = 256, heads: int = 8, length: int = 128
) -> Any:
    """Causal Transformer layers."""
    nn = lib.nn

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, width)
            self.places = nn.Embedding(length, width)
            layer = nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
            self.head = nn.Linear(width, WORDS)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

        def forward(self, tokens: Any) -> Any:
            places = lib.arange(tokens.shape[1], device=tokens.device)
            x = self.words(tokens) + self.places(places)
            return self.head(self.layers(x, mask=self.mask, is_causal=True))

    return GPT()


def tagger(lib: ModuleType) -> Any:
    """A bidirectional LSTM of two layers that classifies each token."""
    nn = lib.nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, 128)
            self.lstm = nn.LSTM(128, 128, 2, batch_first=True, bidirectional=True)
            self.head = nn.Linear(256, CLASSES)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.lstm(self.words(tokens))[0])

    return Tagger()


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def integers(high: int, *shape: int) -> np.ndarray:
    return rng.integers(0, high, shape)


CASES = [
    Case("Perceptron, 3 layers, batch 128", perceptron, normal(128, 784), integers(CLASSES, 128)),
    Case("Residual network, 14 layers, 32 x 32 x 32", residual_network, normal(32, 3, 32, 32),
         integers(CLASSES, 32)),
    Case("GPT, 4 layers, 8 x 128 words", gpt, integers(WORDS, 8, 128), integers(WORDS, 8, 128)),
    Case("LSTM, 2 layers both ways, 32 x 64 words", tagger, integers(WORDS, 32, 64),
         integers(CLASSES, 32, 64)),
]  # fmt: skip


#: Models that are too large for a CPU.
CASES_FOR_GPUS = [
    Case("GPT, 12 layers, 768 wide, 8 x 1024 words, half", lambda lib: gpt(lib, 12, 768, 12, 1024),
         integers(WORDS, 8, 1024), integers(WORDS, 8, 1024), half=True),
]  # fmt: skip


def step_of(lib: ModuleType, case: Case, device: str = "cpu") -> tuple[Callable[[], Any], Any]:
    """A training step on one batch that returns the loss, and the model that it trains."""
    lib.manual_seed(0)
    model = case.build(lib).to(device)
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-4)
    input, target = (lib.from_numpy(each).to(device) for each in (case.input, case.target))

    half = case.half

    def step() -> Any:
        with lib.autocast(device, dtype=lib.bfloat16, enabled=half):
            scores = model(input)
        loss = lib.nn.functional.cross_entropy(scores.flatten(0, -2), target.flatten())
        loss.backward()
        lib.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step, model
