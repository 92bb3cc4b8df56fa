"""A training step of whole models, as a ratio to PyTorch eager.

Each model is defined once, for either library, and so is its step (`_models`): forward, loss,
``backward``, clipping of the gradients' norm, and AdamW. It runs with PyTorch, with flambeau eager
and with flambeau compiled (the whole step one program), in turn in one run.

    python benchmarks/models.py                    time of the process, everything on one core
    python benchmarks/models.py --all-cores        wall clock, on the cores that both choose
    python benchmarks/models.py --only GPT         only models whose name has this

Wall clock needs an otherwise idle machine.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from _beside_pytorch import ROUNDS, WHAT, is_asked_for, medians  # isort: skip

import numpy as np
import torch
from _models import CASES, Case, step_of

import flambeau

SECONDS_PER_ROUND = 0.3


def with_results(step: Callable[[], Any], model: Any) -> Callable[[], list[Any]]:
    """``step``, giving all that it computes, for which one can wait."""
    parameters = list(model.parameters())
    return lambda: [step().jax(), *(each.jax() for each in parameters)]


def programs(case: Case) -> dict[str, Callable[[], Any]]:
    """The step with each, of which the losses must agree."""
    theirs, _ = step_of(torch, case)
    eager = with_results(*step_of(flambeau, case))
    step, model = step_of(flambeau, case)
    compiled = with_results(flambeau.compile(step), model)
    losses = [theirs().item(), eager()[0].item(), compiled()[0].item()]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-3)
    return {"PyTorch": theirs, "eager": eager, "compiled": compiled}


def main() -> None:
    """Time every model and print the ratios."""
    print(f"one training step, medians of {ROUNDS} rounds, {WHAT}")
    print(f"{'model':42} {'PyTorch':>10} {'eager':>7} {'compiled':>9}   (ratios to PyTorch)")
    for case in CASES:
        if not is_asked_for(case.name):
            continue
        times = medians(programs(case), SECONDS_PER_ROUND)
        base = times["PyTorch"]
        eager, compiled = times["eager"] / base, times["compiled"] / base
        print(f"{case.name:42} {base * 1e3:7.2f} ms {eager:7.2f} {compiled:9.2f}", flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
