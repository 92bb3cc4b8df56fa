"""Tables of text that fit a width, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Sequence

#: The maximum width of a table, in characters.
WIDTH = 100

# A column of names keeps at least this width.
_NARROWEST = 12


def table(columns: Sequence[tuple[str, Sequence[str]]], names: int) -> list[str]:
    """The lines of a table.

    Args:
        columns: Titles and cells. The first ``names`` columns are texts, to the left and shortened
            where the table would be too wide; the others are numbers, to the right.
        names: The number of columns of texts.
    """
    widths = [max(map(len, (title, *cells))) for title, cells in columns]
    excess = sum(widths) + 2 * (len(widths) - 1) - WIDTH
    while excess > 0 and max(widths[:names]) > _NARROWEST:
        widths[widths.index(max(widths[:names]))] -= 1
        excess -= 1
    rule = "  ".join("-" * width for width in widths)
    rows = zip(*(cells for _, cells in columns), strict=True)
    lines = [_line(cells, widths, names) for cells in ([title for title, _ in columns], *rows)]
    return [lines[0], rule, *lines[1:]]


def _line(cells: Sequence[str], widths: Sequence[int], names: int) -> str:
    padded = [
        shortened(cell, width).ljust(width) if i < names else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def shortened(text: str, width: int) -> str:
    """``text`` without its middle if it is longer than ``width``; paths differ at their ends."""
    if len(text) <= width:
        return text
    last = (width - 3) * 2 // 3
    return f"{text[: width - 3 - last]}...{text[len(text) - last :]}"


def count(number: float) -> str:
    """A number of operations, such as ``"1.21 G"``."""
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.2f} {unit}"
    return f"{number:.0f}"


def size(number: float) -> str:
    """A number of bytes, such as ``"1.50 KB"``; a KB has 1024 bytes."""
    for power, unit in ((40, "TB"), (30, "GB"), (20, "MB"), (10, "KB")):
        if number >= 1 << power:
            return f"{number / (1 << power):.2f} {unit}"
    return f"{number:.0f} B"


def duration(microseconds: float) -> str:
    """A time, such as ``"1.50 ms"``."""
    for length, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= length:
            return f"{microseconds / length:.2f} {unit}"
    return f"{microseconds:.1f} us"
