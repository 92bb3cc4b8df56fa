"""Generation with a key-value cache: the time of one token, as a ratio to PyTorch eager.

The same Transformer and step for both libraries: read the last token of each text, write its keys
and values into a cache of the whole context at a position held in a tensor, attend to the positions
up to it, and take the likeliest next token. The columns are those of `models.py`. A row's tokens
per second are the number of texts divided by the time. The libraries must agree on the first
scores.

    python benchmarks/generation.py                    time of the process, everything on one core
    python benchmarks/generation.py --all-cores        wall clock, on the cores that all choose
    python benchmarks/generation.py --device cuda      wall clock, on a GPU
    python benchmarks/generation.py --only "1 text"    only rows whose name contains this
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from _beside_pytorch import run  # isort: skip
from _cores import OPTIONS  # isort: skip

WORDS, HEADS = 1000, 8


class Case(NamedTuple):
    """The sizes of a model and its cache, and the number of texts."""

    layers: int
    width: int
    context: int
    texts: int
    uses_cache: bool = True


CASES = {
    "4 layers of 256, context 256, 1 text": Case(4, 256, 256, 1),
    "4 layers of 256, context 256, 8 texts": Case(4, 256, 256, 8),
    "4 layers of 256, context 1024, 1 text": Case(4, 256, 1024, 1),
    "without a cache, context 256, 1 text": Case(4, 256, 256, 1, uses_cache=False),
}


def transformer(lib: ModuleType, case: Case) -> Any:
    """A causal Transformer, whose attention may have a cache of keys and values."""
    nn = lib.nn
    sdpa = nn.functional.scaled_dot_product_attention

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(case.width), nn.LayerNorm(case.width)
            self.inputs = nn.Linear(case.width, 3 * case.width)
            self.output = nn.Linear(case.width, case.width)
            self.layers = nn.Sequential(
                nn.Linear(case.width, 4 * case.width),
                nn.GELU(),
                nn.Linear(4 * case.width, case.width),
            )
            shape = (case.texts, HEADS, case.context, case.width // HEADS)
            self.register_buffer("keys", lib.zeros(shape))
            self.register_buffer("values", lib.zeros(shape))

        def forward(self, x: Any, places: Any) -> Any:
            n, length, _ = x.shape
            heads = self.inputs(self.norm1(x)).view(n, length, 3, HEADS, -1)
            query, key, value = heads.permute(2, 0, 3, 1, 4)
            if case.uses_cache:
                self.keys[:, :, places] = key
                self.values[:, :, places] = value
                seen = lib.arange(case.context, device=x.device) <= places[:, None]
                y = sdpa(query, self.keys, self.values, attn_mask=seen)
            else:
                y = sdpa(query, key, value, is_causal=True)
            x = x + self.output(y.transpose(1, 2).reshape(n, length, case.width))
            return x + self.layers(self.norm2(x))

    class Transformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, case.width)
            self.places = nn.Embedding(case.context, case.width)
            self.blocks = nn.ModuleList(Block() for _ in range(case.layers))
            self.norm = nn.LayerNorm(case.width)
            self.head = nn.Linear(case.width, WORDS)

        def forward(self, tokens: Any, places: Any) -> Any:
            x = self.words(tokens) + self.places(places)
            for block in self.blocks:
                x = block(x, places)
            return self.head(self.norm(x))

    return Transformer()


def prepare(
    lib: ModuleType, name: str, compiles: bool
) -> tuple[Callable[[], list[Any]], float | None]:
    """The step that generates a token for each text, and the greatest of its first scores."""
    case = CASES[name]
    lib.manual_seed(0)
    model = transformer(lib, case).to(OPTIONS.device).eval()
    shape = (case.texts, case.context)
    tokens = lib.zeros(shape, dtype=lib.int64, device=OPTIONS.device)
    place = lib.zeros(1, dtype=lib.int64, device=OPTIONS.device)
    everywhere = lib.arange(case.context, device=OPTIONS.device)

    @lib.no_grad()
    def step() -> Any:
        if case.uses_cache:
            scores = model(tokens[:, place], place)[:, 0]
        else:
            scores = model(tokens, everywhere)[:, place][:, 0]
        # After the last position the texts start again.
        place.add_(1).remainder_(case.context)
        tokens[:, place] = scores.argmax(-1, keepdim=True)
        return scores

    if compiles:
        step = lib.compile(step)
    number = step().max().item()
    return lambda: [step(), tokens], number


if __name__ == "__main__":
    run("one token of each text", prepare, {name: {} for name in CASES})
