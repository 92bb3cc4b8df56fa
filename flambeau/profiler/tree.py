"""The rows of a summary as a tree in HTML, which opens and closes on a click."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from flambeau.profiler import text


def html_of(rows: Sequence[Any], ids: Mapping[str, str] | None = None) -> str:
    """Nested ``details`` elements, one for each row.

    Args:
        rows: The rows of a summary, in the order of registration.
        ids: The ids of elements, by the paths of rows.
    """
    return "".join(_elements(rows, ids or {}))


def output_text(row: Any) -> str:
    """The shapes that a module returned."""
    return _shape_text(row.output) if row.calls else "-"


def time_text(row: Any) -> str:
    """The part of the time that a module took."""
    return f"{100 * (row.time_share or 0.0):.0f}%"


def _shape_text(output: Any) -> str:
    if isinstance(output, str):
        return output
    if isinstance(output, Mapping):
        return "{" + ", ".join(f"{key}: {_shape_text(each)}" for key, each in output.items()) + "}"
    if type(output) is tuple:
        return "(" + ", ".join(map(_shape_text, output)) + ")"
    return str([*output])


def _elements(rows: Sequence[Any], ids: Mapping[str, str]) -> Iterator[str]:
    open_depths: list[int] = []
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        while open_depths and open_depths[-1] >= row.depth:
            open_depths.pop()
            yield "</details>"
        mark = f' id="{ids[row.path]}"' if row.path in ids else ""
        if following is not None and following.depth > row.depth:
            open_depths.append(row.depth)
            state = " open" if row.depth < 1 else ""
            yield f"<details{state}><summary{mark}>{_cells(row)}</summary>"
        else:
            yield f'<div{mark} style="padding-left:1.1em">{_cells(row)}</div>'
    yield "</details>" * len(open_depths)


def _cells(row: Any) -> str:
    """The cells of a row in columns of equal widths, the first one indented."""
    name = escape(row.path.rpartition(".")[2] or "(model)")
    numbers = [f"{row.params:,}", text.size(row.bytes)]
    if row.flops is not None:
        numbers = [output_text(row), *numbers, text.count(row.flops)]
    if row.time_share is not None:
        numbers.append(time_text(row))
    style = f"display:inline-block;width:24em;padding-left:{row.depth}em"
    cells = [f'<span style="{style}"><b>{name}</b> {escape(row.class_name)}</span>']
    style = "display:inline-block;width:10em;text-align:right"
    cells += [f'<span style="{style}">{escape(each)}</span>' for each in numbers]
    return "".join(cells)
