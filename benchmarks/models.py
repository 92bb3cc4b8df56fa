"""A training step of whole models, as a ratio to PyTorch eager.

Each model is defined once, for either library, and so is its step (`_models`): forward, loss,
``backward``, clipping of the gradients' norm, and AdamW. It runs with PyTorch eager and by
``torch.compile``, with flambeau eager, with flambeau compiled (the whole step one program), and
compiled without the native kernels: in turn in one run, each in a process of its own. All must
agree about the loss of the first step.

    python benchmarks/models.py                    time of the process, everything on one core
    python benchmarks/models.py --all-cores        wall clock, on the cores that all choose
    python benchmarks/models.py --only GPT         only models whose name has this

Wall clock needs an otherwise idle machine.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from _beside_pytorch import run  # isort: skip

from _models import CASES, step_of

#: How much of a column's time a compiled step may take.
LIMITS = {
    "Residual network": {"PyTorch": 0.9, "torch.compile": 1.2},
    "GPT": {"torch.compile": 0.9},
}


def prepare(lib: ModuleType, name: str, compiles: bool) -> tuple[Callable[[], list[Any]], float]:
    """The step of the model of this name, and its first loss."""
    step, model = step_of(lib, next(each for each in CASES if each.name == name))
    if compiles:
        step = lib.compile(step)
    parameters = list(model.parameters())
    return lambda: [step(), *parameters], step().item()


def limits_of(name: str) -> dict[str, float]:
    return next((each for model, each in LIMITS.items() if name.startswith(model)), {})


if __name__ == "__main__":
    run("one training step", prepare, {case.name: limits_of(case.name) for case in CASES})
