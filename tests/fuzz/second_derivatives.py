"""Gradients of gradients, with PyTorch and with flambeau.

The cases of `numbers` run in double precision on zeros, ties and numbers of ordinary size, where a
rule that is right for the gradient may be wrong for the gradient of the gradient. What disagrees is
reported, unless `DIFFERENCES` says why. Everything runs by
``python -m tests.fuzz.second_derivatives --limit 10000``.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import flambeau
from flambeau.core.values.convert import make
from tests.fuzz import numbers
from tests.fuzz.number_cases import Case
from tests.fuzz.numbers import cotangent, to_numpy, to_torch, torch
from tests.fuzz.report import Disagreement, Report, main

DTYPES = ("float64", "complex128")
#: Beyond these, terms of second derivatives overflow or vanish.
LEAST, GREATEST = 1e-3, 3.0
#: The cases whose gradients of gradients differ on purpose, and why.
DIFFERENCES = {
    r"activation\.softplus, 2, 5, .*": "the second derivative jumps at the threshold",
    r"activation\.prelu(, 0)?, .*": "the second derivative jumps at 0",
    r"complex_numbers\.polar, .*": "lengths of 0 and below, of which PyTorch's gradient is 0",
    r"cumulative\.logcumsumexp, complex128": "complex numbers are refused",
    r"reparametrization\.weight_norm(, zero)?, .*": "PyTorch's disagrees with finite differences",
}


def arrays_of(case: Case, dtype: str) -> tuple[np.ndarray, ...]:
    """The inputs of a case, with numbers of ordinary size for those at the edges."""
    random = np.random.default_rng(zlib.crc32(f"{case.name} {dtype}".encode()))
    return tuple(map(_ordinary, case.inputs(dtype, random)))


def _ordinary(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "c":
        return (_ordinary(array.real) + 1j * _ordinary(array.imag)).astype(array.dtype)
    if array.dtype.kind != "f":
        return array
    finite = np.clip(np.where(np.isfinite(array), array, 1), -GREATEST, GREATEST)
    return np.where(np.abs(finite) < LEAST, 0, finite).astype(array.dtype)


def gradients(
    lib: Any, case: Case, arrays: tuple[np.ndarray, ...]
) -> list[list[np.ndarray]] | Exception | None:
    """The gradients of the inputs, and the gradients of these; ``None`` if there are none."""
    convert = to_torch if lib is torch else make
    tensors = [convert(each) for each in arrays]
    leaves = [each for each in tensors if each.is_floating_point() or each.is_complex()]
    for each in leaves:
        each.requires_grad_()
    try:
        # Leaves cannot be written in place.
        given = [each * 1 if each.requires_grad else each for each in tensors]
        results = case.compute(lib, *given)
        results = list(results) if isinstance(results, tuple | list) else [results]
        orders, values = [], _recorded(results)
        for order in range(2):
            if not values:
                break
            # Other numbers for each, since opposite gradients would cancel.
            weights = [
                convert(cotangent("plain", to_numpy(each)) * (1 + place)) for place, each in values
            ]
            options = {"create_graph": not order, "allow_unused": True}
            recorded = [each for _, each in values]
            found = lib.autograd.grad(recorded, leaves, weights, **options)
            # None counts as zeros.
            pairs = zip(found, leaves, strict=True)
            orders.append([lib.zeros_like(like) if each is None else each for each, like in pairs])
            values = _recorded(orders[-1])
    except Exception as error:  # noqa: BLE001
        return error
    if not orders:
        return None
    zeros = [np.zeros_like(to_numpy(each)) for each in leaves]
    return [[to_numpy(each) for each in order] for order in orders] + [zeros] * (2 - len(orders))


def _recorded(tensors: list[Any]) -> list[tuple[int, Any]]:
    """The tensors that require gradients, with their places."""
    return [(place, each) for place, each in enumerate(tensors) if each.requires_grad]


def compared(case: Case, dtype: str) -> Iterator[str]:
    """What differs where PyTorch's gradients and gradients of gradients are finite."""
    arrays = arrays_of(case, dtype)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        theirs, ours = gradients(torch, case, arrays), gradients(flambeau, case, arrays)
    if theirs is None or isinstance(theirs, Exception):
        return
    if ours is None or isinstance(ours, Exception):
        yield f"no gradient of a gradient: {ours!r}"
        return
    for place, (first, expected, found) in enumerate(
        zip(theirs[0], theirs[1], ours[1], strict=True)
    ):
        # A gradient that is not finite is compared by `numbers`.
        usable = np.isfinite(expected) & np.isfinite(first)
        bad = usable & ~np.isclose(found, expected, rtol=1e-7, atol=1e-8)
        if bad.any():
            at = tuple(np.argwhere(bad)[0])
            here = f"{found[at]} not {expected[at]}"
            yield f"input {place} at {at}: {here}; {bad.sum()} of {bad.size}"


def is_documented(case: Case, dtype: str) -> bool:
    """Whether `DIFFERENCES` has the case."""
    return any(re.fullmatch(pattern, f"{case.name}, {dtype}") for pattern in DIFFERENCES)


def run(seconds: float | None, seed: int, limit: int | None) -> Report:
    """Compare cases in a random order."""
    report, started = Report("second derivatives", seed), time.monotonic()
    everything = [
        (case, dtype) for case in numbers.cases() for dtype in DTYPES if dtype in case.dtypes
    ]
    np.random.default_rng(seed).shuffle(everything)  # type: ignore[arg-type]
    for case, dtype in everything[:limit]:
        if seconds is not None and time.monotonic() - started > seconds:
            break
        found = list(compared(case, dtype))
        report.counts["operators, uses and dtypes"] += 1
        if is_documented(case, dtype):
            report.counts["that differ as documented"] += bool(found)
            continue
        report.disagreements += [
            Disagreement(f"{case.name}, {dtype}: second derivative", f"# {each}") for each in found
        ]
    report.seconds = time.monotonic() - started
    return report


if __name__ == "__main__":
    sys.exit(main(run))
