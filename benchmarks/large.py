"""A large language model in bfloat16 on a CPU: time and memory to build, load and generate.

A decoder in the sizes of a Llama of 7 billion parameters is built on the meta device, gets its
weights from safetensors files of one layer each, and generates with a cache of keys and values, one
token a call. Each library has a process of its own, which uses all cores; its memory is the largest
that it had. flambeau's step is compiled, PyTorch's runs eagerly.

    python benchmarks/large.py                 needs 14 GB on the disk, and 20 GB of memory
    python benchmarks/large.py --layers 4      of fewer layers
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _results import keep

WORDS, CONTEXT, HEAD, TOKENS = 32000, 256, 128, 12


def decoder(lib: Any, layers: int, width: int) -> Any:
    """The model; a hidden layer is 2.69 times as wide, in multiples of 128."""
    nn, heads, hidden = lib.nn, width // HEAD, width * 43 // 16 // 128 * 128

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
            self.inputs = nn.Linear(width, 3 * width, bias=False)
            self.output = nn.Linear(width, width, bias=False)
            self.gate = nn.Linear(width, hidden, bias=False)
            self.up = nn.Linear(width, hidden, bias=False)
            self.down = nn.Linear(hidden, width, bias=False)

        def forward(self, x: Any, cache: Any, place: Any, seen: Any) -> Any:
            parts = self.inputs(self.norm1(x)).view(1, -1, 3, heads, HEAD)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            keys, values = cache
            keys[:, :, place] = key
            values[:, :, place] = value
            mixed = nn.functional.scaled_dot_product_attention(query, keys, values, seen)
            x = x + self.output(mixed.transpose(1, 2).flatten(2))
            normed = self.norm2(x)
            return x + self.down(nn.functional.silu(self.gate(normed)) * self.up(normed))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(WORDS, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.RMSNorm(width)
            self.scores = nn.Linear(width, WORDS, bias=False)

        def forward(self, tokens: Any, caches: Any, place: Any) -> Any:
            seen = (lib.arange(CONTEXT) <= place)[None, None]
            x = self.words(tokens)
            for block, cache in zip(self.blocks, caches, strict=True):
                x = block(x, cache, place, seen)
            return self.scores(self.norm(x))

    with lib.device("meta"):
        return Decoder().to(lib.bfloat16).eval()


def write(folder: Path, layers: int, width: int) -> None:
    """Write weights, a file for each layer, and their index."""
    import flambeau

    flambeau.manual_seed(0)
    parts: dict[str, dict[str, Any]] = {}
    for name, meta in decoder(flambeau, layers, width).state_dict().items():
        part = "-".join(name.split(".")[:2]) + ".safetensors"
        parts.setdefault(part, {})[name] = meta
    for part, metas in parts.items():
        weights = {
            name: flambeau.ones(each.shape, dtype=each.dtype)
            if each.ndim == 1
            else flambeau.randn(each.shape).mul_(0.02).to(each.dtype)
            for name, each in metas.items()
        }
        flambeau.save(weights, folder / part)
    where = {name: part for part, metas in parts.items() for name in metas}
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def weights(lib: Any, folder: Path) -> dict[str, Any]:
    """The weights of a folder of `write`."""
    if lib.__name__ == "flambeau":
        return lib.load(folder / "model.safetensors.index.json")
    from safetensors.torch import load_file

    found: dict[str, Any] = {}
    for part in sorted(folder.glob("*.safetensors")):
        found |= load_file(part)
    return found


def memory() -> float:
    """The most memory that the process has had, in GB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(each.split()[1]) for each in lines if each.startswith("VmHWM")) / 2**20


def measure(library: str, folder: Path, layers: int, width: int) -> dict[str, Any]:
    """The seconds of each part, the memory, and the tokens."""
    lib = importlib.import_module(library)
    begin = time.perf_counter()
    model = decoder(lib, layers, width)
    seconds = {"build": time.perf_counter() - begin}
    begin = time.perf_counter()
    model.load_state_dict(weights(lib, folder), assign=True)
    seconds["load"] = time.perf_counter() - begin
    shape = (1, width // HEAD, CONTEXT, HEAD)
    caches = [[lib.zeros(shape, dtype=lib.bfloat16) for _ in range(2)] for _ in range(layers)]

    @lib.no_grad()
    def step(token: Any, place: Any) -> Any:
        return model(token, caches, place)[:, -1].argmax(-1, keepdim=True)

    run = lib.compile(step) if library == "flambeau" else step
    token, tokens, times = lib.tensor([[1]]), [], []
    for place in range(TOKENS):
        begin = time.perf_counter()
        token = run(token, lib.tensor([place]))
        tokens.append(token.item())
        times.append(time.perf_counter() - begin)
    seconds |= {"first token": times[0], "a token": sorted(times[1:])[len(times) // 2]}
    parameters = sum(each.numel() for each in model.parameters())
    return {"seconds": seconds, "memory": memory(), "tokens": tokens, "parameters": parameters}


def main() -> None:
    """Measure both libraries, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--library", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = options.layers, options.width
    if options.library:
        print(json.dumps(measure(options.library, options.folder, *sizes)))
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--folder", folder]
        command += ["--layers", str(options.layers), "--width", str(options.width)]
        write(Path(folder), *sizes)
        found = {}
        for library in ("flambeau", "torch"):
            done = subprocess.check_output([*command, "--library", library], text=True)
            found[library] = json.loads(done.splitlines()[-1])
    ours, theirs = found["flambeau"], found["torch"]
    print(f"{ours['parameters'] / 1e9:.1f} billion parameters in bfloat16")
    for each in ("build", "load", "first token", "a token"):
        one, other = ours["seconds"][each], theirs["seconds"][each]
        print(f"{each:12} {one:8.3f} s, PyTorch {other:8.3f} s, ratio {one / other:.2f}")
    print(f"{'memory':12} {ours['memory']:8.2f} GB, PyTorch {theirs['memory']:7.2f} GB")
    print(f"the first {sum(a == b for a, b in zip(ours['tokens'], theirs['tokens'], strict=True))}"
          f" of {TOKENS} tokens are equal")  # fmt: skip
    name = f"{ours['parameters'] / 1e9:.1f} billion"
    ratios = {each: ours["seconds"][each] / theirs["seconds"][each] for each in ours["seconds"]}
    keep("large", {name: {**ratios, "memory": ours["memory"] / theirs["memory"]}})


if __name__ == "__main__":
    main()
