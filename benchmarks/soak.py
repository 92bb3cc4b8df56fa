"""The memory of a long-running process that meets new shapes, eagerly and compiled.

    python benchmarks/soak.py --rounds 2000

Each round runs 25 operators forward and backward on arrays of a new length, so 2,000 rounds are
50,000 pairs of an operator and a shape, and one step of a small perceptron with Adam, compiled, on
a batch of that length. Lengths begin at 1,025, since XLA makes larger programs from there on
(`--from 1` shows that). After each tenth it prints the number of memory maps of the process (Linux
kills it at vm.max_map_count), its resident memory, and the ratio to the memory after the first
tenth. Compilation dominates the time; the speed of the programs is irrelevant here, so
XLA_FLAGS=--xla_backend_optimization_level=0 may shorten it.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import warnings
from pathlib import Path

import flambeau
from flambeau import nn
from flambeau.compile.errors import CompileWarning
from flambeau.nn import functional as F

OPERATORS = [
    flambeau.exp, flambeau.sin, flambeau.tanh, flambeau.sigmoid, flambeau.sqrt, flambeau.log1p,
    flambeau.erf, flambeau.abs, flambeau.square, flambeau.cumsum, flambeau.logsumexp,
    flambeau.flip, flambeau.softmax, flambeau.log_softmax, flambeau.sum, flambeau.mean,
    flambeau.prod, flambeau.amax, F.relu, F.gelu, F.silu, F.softplus, F.elu, F.mish,
    F.leaky_relu,
]  # fmt: skip
OF_A_DIM = {"cumsum", "logsumexp", "softmax", "log_softmax"}


def eager(length: int) -> None:
    """All operators on arrays of one length, each with its gradient."""
    for operator in OPERATORS:
        x = flambeau.ones(length, requires_grad=True)
        name = operator.__name__
        result = operator(x, 0) if name in OF_A_DIM else operator(x, *[[0]] * (name == "flip"))
        result.backward(flambeau.ones(result.shape))


def held() -> tuple[int, float]:
    """The number of memory maps of this process, and its resident memory in MB."""
    gc.collect()
    maps = Path("/proc/self/maps").read_text().count("\n")
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return maps, pages * resource.getpagesize() / 2**20


def main() -> None:
    """Run the rounds and print the memory after each tenth."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--from", type=int, default=1025, dest="shortest", help="the first length")
    chosen = parser.parse_args()
    rounds = chosen.rounds
    warnings.simplefilter("ignore", CompileWarning)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = flambeau.optim.Adam(model.parameters())

    @flambeau.compile
    def step(x: flambeau.Tensor) -> flambeau.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    first = 0.0
    limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    print("pairs  compiled  maps (of the limit)  memory  of that after a tenth", flush=True)
    for number in range(1, rounds + 1):
        length = chosen.shortest + number - 1
        eager(length)
        step(flambeau.ones(length, 4))
        if number % max(1, rounds // 10) == 0:
            maps, memory = held()
            first = first or memory
            print(
                f"{number * len(OPERATORS):>6}  {number:>7}  {maps:>6} ({maps / limit:.0%})  "
                f"{memory:>6.0f} MB  {memory / first:.3f}",
                flush=True,
            )
    counts = flambeau.compiler.stats()
    print(f"compiled {counts['compiled']}, loaded {counts['loaded']}, held {counts['held']}")


if __name__ == "__main__":
    sys.exit(main())
