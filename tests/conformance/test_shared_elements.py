"""Arrays of `numpy()` share elements with tensors and their views, as PyTorch's do."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import torch

import flambeau

# Without what flambeau refuses: writes to expanded tensors and windows, and to views of tensors
# that were given another shape in place.
VIEWS = [
    "{x}[1]", "{x}[:, 1:]", "{x}[::2]", "{x}.t()", "{x}[..., 0]", "{x}.diagonal()", "{x}[None]",
    "{x}.reshape(-1)", "{x}.view({x}.shape)", "{x}.squeeze()", "{x}.transpose(0, -1)",
    "{x}.detach()", "{x}.view_as({x})", "{x}.narrow(0, 0, 1)", "{x}.data", "{x}.flatten()",
    "{x}.permute(*range({x}.dim()))",
]  # fmt: skip
WRITES = [
    "{x}.add_(1)", "{x}.mul_(2)", "{x}[0] = 3", "{x}.zero_()", "{x}.copy_({x}.flip(0))",
    "lib.add({x}, 1, out={x})", "{x}[{x} > 2] = -1", "lib.nn.init.constant_({x}, 4)",
    "{x}.data = {x} * 2", "{x}.clamp_(-5, 5)",
]  # fmt: skip
ARRAYS = [
    "{a}[...] += 1", "{a}[0] = 5", "{a} *= 2", "{a}.fill(7)", "{a}.T[-1] = 9", "{a}.flat[0] = 6",
    "np.negative({a}, {a})",
]  # fmt: skip


def program(seed: int) -> list[str]:
    """Statements over tensors ``t0, t1, ...`` and arrays ``a0, a1, ...``."""
    rng = np.random.default_rng(seed)
    lines = ["t0 = lib.arange(12.0).reshape(3, 4)"]
    tensors, arrays = 1, 0
    for _ in range(14):
        kind, x = rng.random(), f"t{rng.integers(tensors)}"
        if kind < 0.3:
            lines.append(f"t{tensors} = {rng.choice(VIEWS).format(x=x)}")
            tensors += 1
        elif kind < 0.5:
            lines.append(f"a{arrays} = {x}.numpy()")
            arrays += 1
        elif kind < 0.75 or not arrays:
            lines.append(rng.choice(WRITES).format(x=x))
        elif kind < 0.95:
            lines.append(rng.choice(ARRAYS).format(a=f"a{rng.integers(arrays)}"))
        else:
            lines.append(f"a{rng.integers(arrays)} = np.zeros(2)")
    return lines


def run(lines: list[str], lib: Any) -> list[Any]:
    """What each statement leaves, or the type of its error; of all tensors and arrays."""
    values: dict[str, Any] = {"lib": lib, "np": np}
    seen: list[Any] = []
    for line in lines:
        try:
            exec(line, values)
        except Exception as error:  # noqa: BLE001
            seen.append((line, type(error).__name__))
        gc.collect(0)
        for name, value in sorted(values.items()):
            if name[0] in "ta" and hasattr(value, "tolist"):
                seen.append((line, name, value.tolist()))
    return seen


@pytest.mark.parametrize("seed", range(40))
def test_tensors_and_arrays_are_pytorchs(seed: int) -> None:
    lines = program(seed)
    theirs, ours = run(lines, torch), run(lines, flambeau)
    for expected, found in zip(theirs, ours, strict=True):
        assert found == expected, "\n".join(lines)
