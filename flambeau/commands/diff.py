"""Compare the names, shapes, dtypes, elements and values of two checkpoints.

A relative difference is one to the larger of the two magnitudes. NaN is equal to NaN. The exit
status is 0 if the checkpoints are equal, 1 if they differ, and 2 after an error.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

from flambeau.checkpoint.limits import Budget
from flambeau.commands.contents import Contents, StoredTensor, boxes, named, opened_contents
from flambeau.commands.text import aligned, form_text, printable, value_text, write

__all__: list[str] = []


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("files", nargs=2, metavar="file", help="a file, an index or a folder")
    parser.add_argument(
        "--headers", action="store_true", help="compare names, shapes and dtypes, and no elements"
    )


def run(options: argparse.Namespace) -> int:
    """Print the differences."""
    first, second = options.files
    limits = options.limits
    with opened_contents(first, limits) as a, opened_contents(second, limits) as b:
        tensors = [(n, each, b.tensors[n]) for n, each in a.tensors.items() if n in b.tensors]
        values = [(n, each, b.values[n]) for n, each in a.values.items() if n in b.values]
        sections = {
            f"only in {printable(first)}": _missing(a, b),
            f"only in {printable(second)}": _missing(b, a),
            "different dtypes or shapes": [
                (printable(name), form_text(left), "->", form_text(right))
                for name, left, right in tensors
                if form_text(left) != form_text(right)
            ],
            "different values": [
                (printable(name), value_text(left), "->", value_text(right))
                for name, left, right in values
                if not _equal(left, right)
            ],
            "different elements": [],
        }
        if not options.headers:
            memory = limits.budget(max(a.size, b.size)).total
            with named(first):
                sections["different elements"] = _elements(tensors, memory)
    for title, rows in sections.items():
        if rows:
            write(f"{title}:", *(f"  {line}" for line in aligned(rows)))
    return int(any(sections.values()))


def _missing(a: Contents, b: Contents) -> list[tuple[str, ...]]:
    tensors = [(n, form_text(each)) for n, each in a.tensors.items() if n not in b.tensors]
    values = [(n, value_text(each)) for n, each in a.values.items() if n not in b.values]
    return [(printable(name), text) for name, text in tensors + values]


def _equal(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    try:
        return bool(np.all(left == right)) or bool(left != left and right != right)
    except (ValueError, RecursionError):  # Arrays inside lists, or deep nesting.
        return False


def _elements(
    tensors: list[tuple[str, StoredTensor, StoredTensor]], memory: int
) -> list[tuple[str, ...]]:
    """The largest differences of each tensor, the largest relative one first."""
    found: list[tuple[float, float, str]] = []
    for name, left, right in tensors:
        if left.shape == right.shape:
            absolute, relative = _largest(left, right, memory)
            if absolute:
                found.append((relative, absolute, printable(name)))
    # NaN, where only one of two elements is NaN, comes before all numbers.
    found.sort(key=lambda each: -math.inf if math.isnan(each[0]) else -each[0])
    rows = [(name, f"{absolute:.3g}", f"{relative:.3g}") for relative, absolute, name in found]
    return [("name", "absolute", "relative"), *rows] if rows else []


def _largest(a: StoredTensor, b: StoredTensor, memory: int) -> tuple[float, float]:
    """The largest absolute and relative difference of two tensors of one shape."""
    shape, largest = a.stored, (0.0, 0.0)
    if a.stored != b.stored:
        shape = a.shape
        claim = math.prod(shape) * max(a.dtype.itemsize, b.dtype.itemsize)
        Budget(memory).take(claim, "an expanded tensor")
    for box in boxes(shape, max(a.dtype.itemsize, b.dtype.itemsize)):
        found = _differences(_part(a, box, shape), _part(b, box, shape))
        largest = tuple(np.maximum(largest, found))
    return float(largest[0]), float(largest[1])


def _part(tensor: StoredTensor, box: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The elements in a box of an expanded shape."""
    sizes = zip(box, shape, tensor.stored, strict=True)
    own = tuple(each if whole == n else slice(0, 1) for each, whole, n in sizes)
    sizes = [len(range(*each.indices(n))) for each, n in zip(box, shape, strict=True)]
    return np.broadcast_to(tensor.read(own), sizes)


def _differences(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    kinds = {a.dtype.kind, b.dtype.kind}
    are_integers = kinds <= {*"biu"}
    if not are_integers:
        of = np.complex128 if "c" in kinds else np.float64
        a, b = a.astype(of), b.astype(of)
    differ = (a != b) & ((a == a) | (b == b))
    a, b = a[differ], b[differ]
    if not a.size:
        return 0.0, 0.0
    if are_integers:  # Differences of 64-bit integers can need more bits.
        a, b = a.astype(object), b.astype(object)
    with np.errstate(all="ignore"):
        absolute = abs(a - b)
        relative = absolute / np.maximum(abs(a), abs(b))
    return float(absolute.max()), float(relative.max())
