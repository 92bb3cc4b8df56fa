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
from flambeau.core.values.convert import make
from tests.autograd.test_operator_gradients import is_run
from tests.fuzz import report as reports
from tests.fuzz.number_cases import Case, elementwise, reductions
from tests.fuzz.number_differences import difference_of
from tests.fuzz.number_edges import edges
from tests.fuzz.number_inputs import DTYPES, HALVES
from tests.fuzz.number_layers import layers, losses
from tests.fuzz.number_matrices import matrices
from tests.fuzz.number_networks import networks
from tests.fuzz.number_shapes import moving, shapes
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
TABLES = (elementwise, reductions, losses, moving, shapes, layers, matrices, networks, edges)
COTANGENTS = ("plain", "zero", "nan", "inf", "some nan")


class Element(NamedTuple):
    """An element that differs.

    Attributes:
        kind: ``"nan for 0"``: flambeau's kind of number, and PyTorch's; or ``"error"``, ``"form"``.
        edges: The kinds of the inputs that it depends on.
        text: The inputs, and both numbers.
    """

    kind: str
    edges: frozenset[str]
    text: str


class Disagreement(NamedTuple):
    """Elements that differ.

    Attributes:
        case: The name of the case.
        dtype: The dtype of the inputs.
        where: ``"value 0"``, or ``"gradient 0, nan"`` with the kind of cotangent.
        elements: Those that differ.
        size: How many elements were compared.
    """

    case: str
    dtype: str
    where: str
    elements: tuple[Element, ...]
    size: int = 1

    @property
    def text(self) -> str:
        """How many elements differ, and some of them."""
        shown = "; ".join(each.text for each in self.elements[:6])
        return f"{len(self.elements)} of {self.size}: {shown}"


def to_torch(array: np.ndarray) -> Any:
    """A PyTorch tensor with the elements of ``array``."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(np.array(array, np.float32)).bfloat16()
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
    """What a case gives.

    Attributes:
        values: The elements of its results.
        gradients: Those of its inputs by the kind of cotangent, or the error for it.
        error: Why there are no results.
        recorded: The results that are on the tape.
    """

    values: list[np.ndarray]
    gradients: dict[str, list[np.ndarray | None] | Exception]
    error: Exception | None = None
    recorded: tuple[Any, ...] = ()


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
    for kind in COTANGENTS if recorded else ():
        given = [convert(cotangent(kind, to_numpy(each))) for each in recorded]
        try:
            found = lib.autograd.grad(recorded, leaves, given, retain_graph=True, allow_unused=True)
            gradients[kind] = [None if each is None else to_numpy(each) for each in found]
        except Exception as error:  # noqa: BLE001
            gradients[kind] = error
    return Outcome(values, gradients, recorded=tuple(recorded))


def edge_of(number: Any) -> Iterator[str]:
    """What kind of input a number is; a complex one has two parts."""
    if isinstance(number, complex | np.complexfloating):
        yield from edge_of(number.real)
        yield from edge_of(number.imag)
    elif not np.isfinite(float(number)):
        yield "nan" if np.isnan(float(number)) else "inf"
    elif number == 0:
        yield "0"
    elif isinstance(number, bool | np.bool_ | np.integer):
        yield "number"
    else:
        limits, size = ml_dtypes.finfo(number.dtype), abs(float(number))
        great, small = float(limits.max) ** 0.5, float(limits.smallest_normal) ** 0.5
        yield "huge" if size > great else "tiny" if size < small else "number"


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
        return (both[0] & both[1]) | close | (np.isnan(found) & np.isnan(expected))
    if found.dtype.kind in "biu":
        return found == expected
    with np.errstate(all="ignore"):
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        return same | (np.abs(found - expected) <= rtol * np.abs(expected) + tiny)


def _listed(outcome: Outcome | None, kind: str) -> list[np.ndarray | None]:
    """The gradients for a kind of cotangent; none where there are none."""
    found = None if outcome is None else outcome.gradients.get(kind)
    return [] if found is None or isinstance(found, Exception) else found


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

    @property
    def size(self) -> int:
        """How many numbers are compared."""
        gradients = [each for kind in COTANGENTS for each in _listed(self.theirs, kind)]
        return sum(each.size for each in (*self.theirs.values, *gradients) if each is not None)

    def disagreements(self) -> Iterator[Disagreement]:
        """What differs."""
        theirs, ours, wide = self.theirs, self.ours, self.wide
        if ours.recorded and not is_run(self.case.operator, ours.recorded):
            yield self._whole("operator", "the case does not run the operator that it names")
        if ours.error is not None or theirs.error is not None:
            if ours.error is not None and theirs.error is None:
                yield self._whole("error", f"{type(ours.error).__name__}: {str(ours.error)[:300]}")
            if isinstance(theirs.error, TypeError):
                yield self._whole("malformed", f"PyTorch: {str(theirs.error)[:300]}")
            if theirs.error is None or not theirs.values or not ours.values:
                return
        for place, (found, expected) in enumerate(zip(ours.values, theirs.values, strict=True)):
            also = wide.values[place] if wide is not None and wide.values else None
            yield from self._compare(f"value {place}", found, expected, also)
        if ours.error is not None or theirs.error is not None:
            return
        plain = _listed(ours, "plain")
        for kind, listed in theirs.gradients.items():
            if isinstance(listed, Exception):
                continue
            refusal = ours.gradients.get(kind)
            if isinstance(refusal, Exception):
                text = f"{type(refusal).__name__}: {str(refusal)[:300]}"
                yield self._whole(f"gradient, {kind}", text)
                continue
            ours_now, wide_now = _listed(ours, kind), _listed(wide, kind)
            for place, expected in enumerate(listed):
                found = ours_now[place] if ours_now else None
                like = self.arrays[place]
                expected = np.zeros_like(like) if expected is None else expected
                found = np.zeros_like(like) if found is None else found
                also = wide_now[place] if wide_now else None
                flat = plain[place] == 0 if plain and plain[place] is not None else None
                where = f"gradient {place}, {kind}"
                yield from self._compare(where, found, expected, also, flat)

    def _compare(
        self, where: str, found: Any, expected: Any, also: Any, flat: Any = None
    ) -> Iterator[Disagreement]:
        if found.shape != expected.shape or found.dtype != expected.dtype:
            forms = [f"{each.dtype} {each.shape}" for each in (found, expected)]
            yield self._whole(where, f"{forms[0]} instead of {forms[1]}", "form")
            return
        rtol = TOLERANCE.get(str(expected.dtype), 0.0)
        tiny = 0.0
        if expected.dtype.kind not in "biu":
            limits = ml_dtypes.finfo(expected.dtype)
            sizes = np.abs(expected[np.isfinite(expected)]).astype(np.float64)
            tiny = float(limits.smallest_normal) * 64
            tiny += float(limits.eps) * self.case.slack * sizes.max(initial=0.0)
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
        elements = tuple(
            self._element(tuple(map(int, at)), found, expected) for at in np.argwhere(~good)
        )
        yield Disagreement(self.case.name, self.dtype, where, elements, good.size)

    def _whole(self, where: str, text: str, kind: str = "error") -> Disagreement:
        element = Element(kind, frozenset(), text)
        return Disagreement(self.case.name, self.dtype, where, (element,))

    def _element(self, at: tuple[int, ...], found: Any, expected: Any) -> Element:
        """The element at a place of a result or a gradient, and the inputs behind it."""
        given, edges = [], set()
        for each in self.arrays:
            if each.shape == found.shape and each.ndim < 2:
                behind = each[at]
                given.append(str(behind))
            elif each.ndim and found.ndim and each.shape[0] == found.shape[0]:
                behind = each[at[0]]
                given.append((f"{each[at]} in " if each.shape == found.shape else "") + str(behind))
            else:
                behind = each
            edges.update(edge for number in np.ravel(behind) for edge in edge_of(number))
        kind = f"{kind_of(found[at])} for {kind_of(expected[at])}"
        text = (
            f"({', '.join(given)}) {at if found.ndim > 1 else ''} -> {found[at]} not {expected[at]}"
        )
        return Element(kind, frozenset(edges), text)


def cases() -> Iterator[Case]:
    """Every case of every table."""
    for table in TABLES:
        yield from table()


def undocumented(found: Disagreement) -> Disagreement | None:
    """What no documented difference explains of a disagreement."""
    elements = tuple(
        each
        for each in found.elements
        if difference_of(found.case, found.where, found.dtype, each.kind, each.edges) is None
    )
    return found._replace(elements=elements) if elements else None


def compared(case: Case, dtype: str, seed: int = 0) -> list[Disagreement]:
    """What differs and is not documented."""
    found = map(undocumented, Comparison(case, dtype, seed).disagreements())
    return [each for each in found if each is not None]


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
        _count(report, case, dtype, seed)
    report.seconds = time.monotonic() - started
    return report


def _count(report: Report, case: Case, dtype: str, seed: int) -> None:
    """Compare one case in one dtype, and add what was found to the report."""
    comparison = Comparison(case, dtype, seed)
    report.counts["operators, uses and dtypes"] += 1
    theirs = comparison.theirs
    report.counts["of these, refused by PyTorch"] += theirs.error is not None
    refused = any(isinstance(each, Exception) for each in theirs.gradients.values())
    report.counts["of these, without some gradient in PyTorch"] += refused
    report.counts["numbers compared"] += comparison.size
    for found in comparison.disagreements():
        each = undocumented(found)
        documented = len(found.elements) - (len(each.elements) if each else 0)
        report.counts["numbers that differ as documented"] += documented
        if each is not None:
            title = f"{each.case}, {each.dtype}: {each.where}"
            text = "\n".join(f"# {line}" for line in each.text.splitlines())
            report.disagreements.append(reports.Disagreement(title, text))


if __name__ == "__main__":
    sys.exit(main(run))
