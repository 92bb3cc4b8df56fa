"""Text for the terminal: tables, sizes, and names that a file has chosen."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Collection
from itertools import islice
from typing import Any

from flambeau.commands.contents import Repeated, StoredTensor

__all__ = ["aligned", "bytes_text", "form_text", "listed", "printable", "value_text", "write"]

# The most characters of a name or value from a file.
_LONGEST = 120
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


def write(*lines: str) -> None:
    """Write lines to the standard output."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def printable(text: str, longest: int = _LONGEST) -> str:
    """The text on one line, shortened, and without characters that control a terminal."""
    if len(text) > longest:
        text = f"{text[: longest // 2]}...{text[-longest // 2 :]}"
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def value_text(value: Any) -> str:
    """The type and the shortened representation of a value."""
    if isinstance(value, Repeated):
        return f"the same as {printable(value.first)}"
    try:
        text = _SHORT.repr(value)
    except RecursionError:
        text = "..."
    return printable(f"{type(value).__name__}  {text}")


def form_text(tensor: StoredTensor) -> str:
    """The dtype and the shape of a tensor."""
    return f"{tensor.dtype.name} {[*tensor.shape]}"


def listed(names: Collection[str]) -> str:
    """The first names, and the number of the others."""
    first = ", ".join(map(printable, islice(names, 5)))
    return first if len(names) <= 5 else f"{first} and {len(names) - 5:,} others"


def bytes_text(count: int) -> str:
    """A number of bytes with a unit, in powers of 1000."""
    size, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while size >= 999.95 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.1f} {units[0]}" if units[0] != "B" else f"{count} B"


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows of equally many columns as lines."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
    return [line.rstrip() for line in lines]
