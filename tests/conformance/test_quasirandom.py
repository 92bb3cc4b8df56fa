"""Sobol's points are PyTorch's, number for number."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import flambeau


def points(lib: Any, dimension: int, scramble: bool, seed: int | None) -> list[Any]:
    lib.manual_seed(3)
    engine = lib.quasirandom.SobolEngine(dimension, scramble=scramble, seed=seed)
    found = [engine.draw(1), engine.draw(5), engine.draw(3, dtype=lib.float64)]
    found += [engine.fast_forward(100).draw(2), engine.reset().draw_base2(3)]
    return [
        str(engine), engine.num_generated, engine.shift.tolist(), engine.sobolstate.tolist(),
        engine.quasi.tolist(), *(each.tolist() for each in found),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("dimension", [1, 3, 40])
def test_points(dimension: int, scramble: bool, seed: int | None) -> None:
    assert points(flambeau, dimension, scramble, seed) == points(torch, dimension, scramble, seed)


def test_drawing_into_a_tensor_and_refusals() -> None:
    for lib in (torch, flambeau):
        engine = lib.quasirandom.SobolEngine(2)
        out = lib.empty(3, 2)
        assert engine.draw(3, out=out) is out
        assert out[1].tolist() == [0.5, 0.5]
        with pytest.raises(ValueError, match="require n to be a power of 2"):
            engine.draw_base2(2)
        for dimension in (0, 21202):
            with pytest.raises(ValueError, match="Supported range of dimensionality"):
                lib.quasirandom.SobolEngine(dimension)
