"""List the tensors and values of a checkpoint, without reading the elements.

If there are more than 40, those whose names differ only in numbers are listed together.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.commands.contents import StoredTensor, boxes, opened_contents
from flambeau.commands.text import aligned, bytes_text, form_text, printable, value_text, write

__all__: list[str] = []

# The most entries that are listed one by one, unless all are asked for.
_FEW = 40
_NUMBER = re.compile(r"(?<![^.])[0-9]+(?![^.])")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", help="a file, an index or a folder")
    parser.add_argument("--all", action="store_true", help="list every entry by itself")
    parser.add_argument(
        "--values", action="store_true", help="read the elements, and count NaN and infinity"
    )


def run(options: argparse.Namespace) -> int:
    """Print the table."""
    with opened_contents(options.file, options.limits) as found:
        own = [each for name, each in found.tensors.items() if each.first == name]
        elements = sum(math.prod(each.stored) for each in own)
        total = bytes_text(sum(each.nbytes for each in own))
        write(
            f"{printable(options.file)}: {found.format}, {bytes_text(found.size)}",
            f"{len(found.tensors):,} tensors, {elements:,} elements, {total}",
        )
        write(*(f"metadata {printable(k)}: {value_text(v)}" for k, v in found.metadata.items()))
        is_long = not options.all and len(found.tensors) + len(found.values) > _FEW
        if found.tensors:
            groups = _grouped(found.tensors, is_long, form_text)
            rows = [_tensor_row(found.tensors, group, options.values) for group in groups]
            titles = "name", "count", "dtype and shape", "bytes"
            odd = ("NaN", "infinite") if options.values else ()
            write("", *aligned([(*titles, *odd), *rows]))
        if found.values:
            groups = _grouped(found.values, is_long, type)
            rows = [_value_row(found.values, group) for group in groups]
            write("", *aligned([("name", "count", "value"), *rows]))
    return 0


def _grouped(
    entries: dict[str, Any], is_long: bool, kind: Callable[[Any], Any]
) -> list[tuple[str, list[str]]]:
    """The names of entries that share a row, each list with its name for the table."""
    groups: dict[Any, list[str]] = {}
    for name, each in entries.items():
        key = (_NUMBER.sub("*", name), kind(each)) if is_long else (name, None)
        groups.setdefault(key, []).append(name)
    found = ((key[0] if len(names) > 1 else names[0], names) for key, names in groups.items())
    return [(printable(title), names) for title, names in found]


def _tensor_row(
    tensors: dict[str, StoredTensor], group: tuple[str, list[str]], reads: bool
) -> tuple[str, ...]:
    title, names = group
    own = [tensors[name] for name in names if tensors[name].first == name]
    size = bytes_text(sum(each.nbytes for each in own))
    if not own:
        size = f"tied to {printable(tensors[names[0]].first)}"
    counts = zip((0, 0), *map(_odd_values, own), strict=True) if reads else ()
    odd = [f"{sum(column):,}" for column in counts]
    return title, f"{len(names):,}", form_text(tensors[names[0]]), size, *odd


def _odd_values(tensor: StoredTensor) -> tuple[int, int]:
    """How many elements are NaN, and how many infinite."""
    nans = infinite = 0
    if tensor.dtype.kind not in "biu":
        for box in boxes(tensor.stored, tensor.dtype.itemsize):
            elements = tensor.read(box)
            nans += int(np.count_nonzero(np.isnan(elements)))
            infinite += int(np.count_nonzero(np.isinf(elements)))
    return nans, infinite


def _value_row(values: dict[str, Any], group: tuple[str, list[str]]) -> tuple[str, ...]:
    title, names = group
    text = value_text(values[names[0]])
    return title, f"{len(names):,}", text if len(names) == 1 else f"{text}, and others"
