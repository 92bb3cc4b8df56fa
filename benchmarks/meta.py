"""Building a transformer of 70 billion parameters on the meta device: time and memory.

The same model definition is built by flambeau, whose meta tensors record their initialization, and
by PyTorch, whose meta tensors do not, each in its own process.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import textwrap

from _results import keep
from _timing import claim

RUNS = 5

PROGRAM = """
    import resource, sys, time
    if sys.argv[1] == "flambeau":
        import flambeau as lib
    else:
        import torch as lib
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self, width=8192, hidden=28672, kv=1024):
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
            self.q = nn.Linear(width, width, bias=False)
            self.k = nn.Linear(width, kv, bias=False)
            self.v = nn.Linear(width, kv, bias=False)
            self.o = nn.Linear(width, width, bias=False)
            self.gate = nn.Linear(width, hidden, bias=False)
            self.up = nn.Linear(width, hidden, bias=False)
            self.down = nn.Linear(hidden, width, bias=False)

    class Transformer(nn.Module):
        def __init__(self, width=8192, layers=80, vocabulary=128256):
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm = nn.RMSNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    with lib.device("meta"):
        model = Transformer()
    seconds = time.perf_counter() - start
    megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(sum(p.numel() for p in model.parameters()), seconds, megabytes)
"""


def build(library):
    """The parameter count, seconds and megabytes of a build, as medians of several runs."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), library]
    rows = [
        tuple(
            map(
                float,
                subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(),
            )
        )
        for _ in range(RUNS)
    ]
    return tuple(map(statistics.median, zip(*rows, strict=True)))


def main():
    count, seconds, megabytes = build("flambeau")
    _, torch_seconds, torch_megabytes = build("torch")
    print(f"{count / 1e9:.1f} billion parameters on the meta device")
    print(f"flambeau: {seconds:.2f} s, {megabytes:.0f} MB")
    print(f"PyTorch: {torch_seconds:.2f} s, {torch_megabytes:.0f} MB")
    print(claim("seconds", seconds, 1.5))
    print(claim("megabytes", megabytes, 200))
    print(f"time, flambeau / PyTorch: {seconds / torch_seconds:.2f}")
    keep("meta", {f"{count / 1e9:.1f} billion": {"ratio": seconds / torch_seconds}})


if __name__ == "__main__":
    main()
