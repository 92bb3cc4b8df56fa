"""Masks of numbers that are not finite, lost imaginary parts, and positions out of range, compiled.

PyTorch raises an error for a position out of range; a compiled function gives NaN there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.fuzz.number_cases import ALL, REAL, Case
from tests.fuzz.number_inputs import numbers, two

#: Positions of a dimension of size 4, on both sides, beyond 32 bits too.
PLACES = (0, 3, -1, -4, -5, 4, 2**31, 2**40 + 1, -(2**33) + 1, -(2**63))


def compiled(compute: Callable[..., Any]) -> Callable[..., Any]:
    """The case with flambeau's compiled function in the place of its eager one."""

    def run(lib: Any, *tensors: Any) -> Any:
        def function(*given: Any) -> Any:
            return compute(lib, *given)

        # Detached, since the node of a compiled function is not its operators'.
        run = function if lib.__name__ == "torch" else lib.compile(function, fullgraph=True)
        return run(*tensors).detach()

    return run


def masks() -> Iterator[Case]:
    """Products and quotients by masks, which are those by 0 and 1."""
    uses = {
        "mask": lambda lib, x, y: x * (y > 0),
        "converted mask": lambda lib, x, y: x * (y > 0).to(x.dtype),
        "negated mask": lambda lib, x, y: ~(y > 0) * x,
        "mask of nan": lambda lib, x, y: x * (x == x),
        "sum under a mask": lambda lib, x, y: (x[:, None] * (y > 0)[:, None]).sum(1),
    }
    for use, compute in uses.items():
        yield Case("arithmetic.mul", use, compute, two, REAL)
        yield Case("arithmetic.mul", f"{use}, compiled", compiled(compute), two, ("float32",))
    for use, compute in {
        "at least 0": lambda lib, x, y: x * x >= 0,
        "at most": lambda lib, x, y: (x.abs() >= 0) | (x + y <= y),
    }.items():
        yield Case("comparison.ge", use, compiled(compute), two, ("float32", "float64"))


def conversions() -> Iterator[Case]:
    """Every dtype as another, complex numbers as real ones too."""
    for name in ("float32", "complex64", "bool", "int32"):

        def converted(lib: Any, x: Any, name: str = name) -> Any:
            return x.to(getattr(lib, name))

        def copied(lib: Any, x: Any, name: str = name) -> Any:
            return lib.zeros(x.shape, dtype=getattr(lib, name)).copy_(x)

        # What lies beyond an integer's range is undefined.
        dtypes = tuple(each for each in ALL if each != name)
        dtypes = tuple(each for each in dtypes if name != "int32" or not each.startswith("float"))
        for operator, compute in {"cast": converted, "copied": copied}.items():
            yield Case(f"conversion.{operator}", f"to {name}", compute, _finite, dtypes)


def _finite(dtype: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    given = numbers(dtype, "few")
    return (given[np.isfinite(given.astype(np.complex128))],)


def positions() -> Iterator[Case]:
    """Elements at positions on both sides of their range."""
    uses: dict[str, Callable[..., Any]] = {
        "indexing.index": lambda lib, x, i: x[i[None]],
        "indexing.index, number": lambda lib, x, i: x[i][None],
        "gathering.gather": lambda lib, x, i: x.gather(0, i[None]),
        "gathering.take": lambda lib, x, i: x.take(i[None]),
        "gathering.index_select": lambda lib, x, i: x.index_select(0, i[None]),
        "embedding.embedding": lambda lib, x, i: lib.nn.functional.embedding(i[None], x[:, None]),
        "loss.cross_entropy": lambda lib, x, i: lib.nn.functional.cross_entropy(
            x[None], i[None], ignore_index=-77
        ),
        "margin_loss.multi_margin_loss": lambda lib, x, i: lib.nn.functional.multi_margin_loss(
            x[None], i[None]
        ),
    }
    for name, compute in uses.items():
        operator, _, use = name.partition(", ")
        run = _one_by_one(compute)
        yield Case(operator, f"{use or 'rows'} out of range", run, _rows, ("float32", "float64"))


def _rows(dtype: str, random: np.random.Generator) -> tuple[np.ndarray, ...]:
    return np.array([1.0, -2.0, 0.5, 3.0], dtype), np.array(PLACES)


def _one_by_one(compute: Callable[..., Any]) -> Callable[..., Any]:
    def run(lib: Any, x: Any, places: Any) -> Any:
        x = x.detach()
        if lib.__name__ != "torch":
            at = lib.compile(lambda x, place: compute(lib, x, place), fullgraph=True)
            return lib.stack([at(x, each).reshape(()) for each in places])
        found = []
        for each in places:
            try:
                found.append(compute(lib, x, each).reshape(()))
            except (IndexError, RuntimeError):
                found.append(x[0] * float("nan"))
        return lib.stack(found)

    return run


def edges() -> Iterator[Case]:
    """All of them."""
    yield from masks()
    yield from conversions()
    yield from positions()
