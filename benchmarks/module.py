"""The overhead of modules: calls, attributes, traversal, saving and loading.

The same statements run on the same modules with flambeau and with PyTorch, interleaved. Each must
take at most PyTorch's time; constructing a layer on the CPU at most 1.5 times as long.
"""

from __future__ import annotations

import functools
import os
import timeit
from collections.abc import Callable
from types import ModuleType

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("FLAMBEAU_INTERPRET", "0")

import torch
from _results import keep
from _timing import claim, medians

import flambeau

BLOCKS = 200

# The statements, the number of repetitions, and the limit as a ratio to PyTorch, if any. A new
# layer's elements are transferred to JAX on first use, here when their shapes are read.
STATEMENTS = [
    ("call with an empty forward", "empty(1)", 1000, 1.0),
    ("call with one forward hook", "hooked(1)", 1000, 1.0),
    ("read a parameter attribute", "linear.weight", 1000, 1.0),
    ("read a submodule attribute", "block.first", 1000, 1.0),
    ("construct Linear(4, 4) on meta", "nn.Linear(4, 4, device='meta')", 10, 1.0),
    ("construct Linear(4, 4) on the CPU", "nn.Linear(4, 4)", 10, 1.5),
    ("the same, with its numbers handed to JAX", "handed(nn.Linear(4, 4))", 10, None),
    ("named_parameters over 800 parameters", "list(model.named_parameters())", 1, 1.0),
    ("state_dict of 800 parameters", "model.state_dict()", 1, 1.0),
    ("load_state_dict of 800 parameters", "model.load_state_dict(state)", 1, 1.0),
    ("train() and eval()", "model.train(); model.eval()", 1, 1.0),
    ("zero_grad of 800 parameters", "model.zero_grad()", 1, 1.0),
]


def names_for(lib: ModuleType) -> dict[str, object]:
    """The names in the statements, created with one library."""
    nn = lib.nn

    class Empty(nn.Module):
        def forward(self, x):
            return x

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.activation = Empty()
            self.second = nn.Linear(4, 4)

    empty, hooked = Empty(), Empty()
    hooked.register_forward_hook(lambda module, args, output: None)
    model = nn.Sequential(*(Block() for _ in range(BLOCKS)))
    return {
        "nn": nn,
        "handed": lambda layer: (layer.weight.shape, layer.bias.shape),
        "empty": empty,
        "hooked": hooked,
        "block": model[0],
        "linear": model[0].first,
        "model": model,
        "state": model.state_dict(),
    }


def program(statement: str, names: dict[str, object], times: int) -> Callable[[], float]:
    """Runs ``statement`` often enough for the program's own call to be negligible."""
    return functools.partial(timeit.Timer(statement, globals=names).timeit, times)


def main() -> None:
    """Time every statement with both libraries and print the claims."""
    ours, theirs = names_for(flambeau), names_for(torch)
    kept = {}
    for name, statement, times, limit in STATEMENTS:
        measured = medians(
            {
                "flambeau": program(statement, ours, times),
                "PyTorch": program(statement, theirs, times),
            }
        )
        each = measured["flambeau"] / times * 1e6
        ratio = measured["flambeau"] / measured["PyTorch"]
        kept[name] = {"ratio": ratio}
        named = f"{name} ({each:.2f} µs)"
        print(f"{named}: {ratio:.2f}" if limit is None else claim(named, ratio, limit))
    keep("module", kept)


if __name__ == "__main__":
    main()
