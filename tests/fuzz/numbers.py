"""Operators at the edges of their dtypes, with PyTorch and with flambeau.

The operators of the gradient tables run on NaN, infinities, zeros of both signs, the greatest and
the least numbers, ties, empty and 0-d tensors, in every dtype they take; and backwards with
ordinary, zero, infinite and NaN cotangents. What disagrees is reported, unless `number_differences`
says why. Everything runs by ``python -m tests.fuzz.numbers --seconds 1200``.
"""

from __future__ import annotations

import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import flambeau
from flambeau.core.convert import make
from tests.fuzz import report as reports
from tests.fuzz.number_cases import Case, elementwise, reductions
from tests.fuzz.number_differences import reason_for
from tests.fuzz.number_inputs import DTYPES, HALVES
from tests.fuzz.number_layers import layers, losses, moving
from tests.fuzz.report import Report, main

try:
    import torch
except ImportError:
    # So that the documentation's examples can be looked for here.
    torch: Any = None

#: Relative tolerance by dtype; the coarser the dtype, the nearer to one unit in the last place.
TOLERANCE = {
    "float64": 1e-11, "float32": 1e-5, "float16": 1.1e-3, "bfloat16": 8.5e-3, "complex64": 2e-5,
    "complex128": 1e-11,
}  # fmt: skip
COTANGENTS = ("plain", "zero", "nan", "inf", "some nan")


class Disagreement(NamedTuple):
    """Elements that differ.

    Attributes:
        case: The name of the case.
        dtype: The dtype of the inputs.
        where: ``"value 0"``, or ``"gradient 0, nan"`` with the kind of cotangent.
        kinds: What differs, such as ``"nan for 0"``: flambeau's kind of number, PyTorch's.
        text: The elements.
    """

    case: str
    dtype: str
    where: str
    kinds: frozenset[str]
    text: str


def to_torch(array: np.ndarray) -> Any:
    """A PyTorch tensor with the elements of ``array``."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    return torch.from_numpy(np.array(array))


def to_numpy(tensor: Any) -> np.ndarray:
    """The elements of either library's tensor."""
    tensor = tensor.detach()
    if str(tensor.dtype).endswith("bfloat16"):
        return np.asarray(tensor.float().numpy(force=True)).astype(ml_dtypes.bfloat16)
    return np.array(tensor.numpy(force=True))


def cotangent(kind: str, like: np.ndarray) -> np.ndarray:
    """A cotangent of the shape and dtype of a result."""
    places = np.arange(like.size).reshape(like.shape)
    numbers = np.array([1.0, -2.0, 0.5, 3.0, 1.25])[places % 5]
    if kind == "zero":
        numbers = np.zeros(like.shape)
    if kind == "nan":
        numbers = np.full(like.shape, np.nan)
    if kind == "inf":
        numbers = np.full(like.shape, np.inf)
    if kind == "some nan":
        numbers = np.where(places % 3 == 1, np.nan, numbers)
    return numbers.astype(like.dtype)


class Outcome(NamedTuple):
    """What a case gives: values, and gradients by kind of cotangent; or an error."""

    values: list[np.ndarray]
    gradients: dict[str, list[np.ndarray | None]]
    error: Exception | None = None


def observe(lib: Any, case: Case, arrays: tuple[np.ndarray, ...]) -> Outcome:
    """Run a case with one library."""
    convert = to_torch if lib is torch else make
    tensors = [convert(each) for each in arrays]
    for each in tensors:
        if each.is_floating_point() or each.is_complex():
            each.requires_grad_()
    try:
        results = case.compute(lib, *tensors)
        results = list(results) if isinstance(results, tuple | list) else [results]
        values = [to_numpy(each) for each in results]
    except Exception as error:  # noqa: BLE001
        return Outcome([], {}, error)
    recorded = [each for each in results if each.requires_grad]
    leaves = [each for each in tensors if each.requires_grad]
    gradients = {}
    try:
        for kind in COTANGENTS if recorded else ():
            given = [convert(cotangent(kind, to_numpy(each))) for each in recorded]
            found = lib.autograd.grad(recorded, leaves, given, retain_graph=True, allow_unused=True)
            gradients[kind] = [None if each is None else to_numpy(each) for each in found]
    except Exception as error:  # noqa: BLE001
        return Outcome(values, {}, error)
    return Outcome(values, gradients)


def kind_of(number: Any) -> str:
    """What kind of number it is."""
    if isinstance(number, complex | np.complexfloating):
        return f"{kind_of(number.real)}+{kind_of(number.imag)}i"
    number = float(number)
    if np.isnan(number):
        return "nan"
    if np.isinf(number):
        return "inf" if number > 0 else "-inf"
    if number == 0:
        return "0"
    return "number"


def agree(found: np.ndarray, expected: np.ndarray, rtol: float, tiny: float) -> np.ndarray:
    """Where two arrays are equal up to rounding."""
    if found.dtype.kind == "c":
        both = (
            agree(found.real, expected.real, rtol, tiny),
            agree(found.imag, expected.imag, rtol, tiny),
        )
        with np.errstate(all="ignore"):
            close = np.abs(found - expected) <= rtol * np.abs(expected) + tiny
        return (both[0] & both[1]) | close
    if found.dtype.kind in "biu":
        return found == expected
    with np.errstate(all="ignore"):
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        return same | (np.abs(found - expected) <= rtol * np.abs(expected) + tiny)


class Comparison:
    """The outcomes of one case in one dtype."""

    def __init__(self, case: Case, dtype: str, seed: int = 0) -> None:
        self.case, self.dtype = case, dtype
        random = np.random.default_rng([seed, zlib.crc32(f"{case.name} {dtype}".encode())])
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            self.arrays = case.inputs(dtype, random)
            self.theirs = observe(torch, case, self.arrays)
            self.ours = observe(flambeau, case, self.arrays)
            self.wide = None
            if dtype in HALVES and self.theirs.error is None:
                wide = tuple(
                    each.astype(np.float32) if each.dtype == DTYPES[dtype] else each
                    for each in self.arrays
                )
                self.wide = observe(torch, case, wide)

    def disagreements(self) -> Iterator[Disagreement]:
        """What differs."""
        theirs, ours, wide = self.theirs, self.ours, self.wide
        if ours.error is not None or theirs.error is not None:
            if ours.error is not None and theirs.error is None:
                text = f"{type(ours.error).__name__}: {str(ours.error)[:300]}"
                yield Disagreement(self.case.name, self.dtype, "error", frozenset(["error"]), text)
            if theirs.error is None or not theirs.values or not ours.values:
                return
        for place, (found, expected) in enumerate(zip(ours.values, theirs.values, strict=True)):
            also = wide.values[place] if wide is not None and wide.values else None
            yield from self._compare(f"value {place}", found, expected, also)
        if ours.error is not None or theirs.error is not None:
            return
        plain = ours.gradients.get("plain", [])
        for kind, listed in theirs.gradients.items():
            for place, expected in enumerate(listed):
                found = ours.gradients[kind][place] if kind in ours.gradients else None
                like = self.arrays[place]
                expected = np.zeros_like(like) if expected is None else expected
                found = np.zeros_like(like) if found is None else found
                also = wide.gradients[kind][place] if wide is not None and wide.gradients else None
                flat = plain[place] == 0 if plain and plain[place] is not None else None
                where = f"gradient {place}, {kind}"
                yield from self._compare(where, found, expected, also, flat)

    def _compare(
        self, where: str, found: Any, expected: Any, also: Any, flat: Any = None
    ) -> Iterator[Disagreement]:
        if found.shape != expected.shape or found.dtype != expected.dtype:
            text = f"{found.dtype} {found.shape} instead of {expected.dtype} {expected.shape}"
            yield Disagreement(self.case.name, self.dtype, where, frozenset(["form"]), text)
            return
        rtol = TOLERANCE.get(str(expected.dtype), 0.0)
        tiny = 0.0
        if expected.dtype.kind not in "biu":
            limits = ml_dtypes.finfo(expected.dtype)
            tiny = float(limits.smallest_normal) * 64 + float(limits.eps) * self.case.slack
        if where.startswith("gradient"):
            rtol *= 4
            tiny += 2e-6 if self.dtype != "float64" else 1e-14
        good = agree(found, expected, rtol, tiny)
        if also is not None and also.shape == expected.shape:
            with np.errstate(all="ignore"):
                rounded = also.astype(expected.dtype)
            good |= agree(found, rounded, rtol, tiny)
        if where.startswith("gradient") and not where.endswith("plain"):
            # What is not finite is so in one of several ways, by the order of the operations.
            good |= ~np.isfinite(found) & ~np.isfinite(expected)
            # A slope of 0 gives 0, where PyTorch may multiply by it; so does a cotangent of 0.
            flat = where.endswith("zero") or (False if flat is None else flat)
            good |= (found == 0) & ~np.isfinite(expected) & flat
        if good.all():
            return
        wrong = np.argwhere(~good)
        kinds = {f"{kind_of(found[tuple(at)])} for {kind_of(expected[tuple(at)])}" for at in wrong}
        lines = [self._line(tuple(at), found, expected) for at in wrong[:6]]
        text = f"{len(wrong)} of {good.size}: " + "; ".join(lines)
        yield Disagreement(self.case.name, self.dtype, where, frozenset(kinds), text)

    def _line(self, at: tuple[int, ...], found: Any, expected: Any) -> str:
        given = []
        for each in self.arrays:
            if each.shape == found.shape:
                given.append(str(each[at]))
                if each.ndim == 2:
                    given.append("in " + str(each[at[0]]))
            elif each.ndim == 2 and found.ndim and found.shape[0] == each.shape[0]:
                given.append(str(each[at[0]]))
        return (
            f"({', '.join(given)}) {at if found.ndim > 1 else ''} -> {found[at]} not {expected[at]}"
        )


def cases() -> Iterator[Case]:
    """Every case of every table."""
    for table in (elementwise, reductions, losses, moving, layers):
        yield from table()


def compared(case: Case, dtype: str, seed: int = 0) -> list[Disagreement]:
    """What differs and is not documented."""
    found = Comparison(case, dtype, seed).disagreements()
    return [each for each in found if reason_for(each.case, each.where, each.dtype) is None]


def run(seconds: float | None, seed: int, limit: int | None) -> Report:
    """Compare cases in a random order; the first seed's inputs are those of the tests."""
    if torch is None:
        raise ImportError(
            "numbers are compared with PyTorch's; install torch, as make conformance does"
        )
    report, started = Report("numbers", seed), time.monotonic()
    everything = [(case, dtype) for case in cases() for dtype in case.dtypes]
    np.random.default_rng(seed).shuffle(everything)  # type: ignore[arg-type]
    for case, dtype in everything[:limit]:
        if seconds is not None and time.monotonic() - started > seconds:
            break
        report.counts["operators, uses and dtypes"] += 1
        for each in compared(case, dtype, seed):
            title = f"{each.case}, {each.dtype}: {each.where}"
            text = "\n".join(f"# {line}" for line in each.text.splitlines())
            report.disagreements.append(reports.Disagreement(title, text))
    report.seconds = time.monotonic() - started
    return report


if __name__ == "__main__":
    sys.exit(main(run))
