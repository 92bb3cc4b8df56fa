"""The boxes of a diagram: modules, each with the modules inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple


class Box(NamedTuple):
    """A shown module.

    Attributes:
        name: Its name in the diagram's text.
        row: Its row of the summary.
        inner: The shown modules inside it.
    """

    name: str
    row: Any
    inner: list[Box]

    @property
    def label(self) -> str:
        """Its own name in the model, and its class."""
        own = self.row.path.rpartition(".")[2]
        return f"{own}: {self.row.class_name}" if own else self.row.class_name


def nested(rows: Sequence[Any], names: Mapping[Any, str]) -> list[Box]:
    """The outermost modules among ``rows``, which are in the order of registration."""
    whole: list[Box] = []
    around: list[Box] = []
    for row in rows:
        while around and around[-1].row.depth >= row.depth:
            around.pop()
        box = Box(names[row.path], row, [])
        (around[-1].inner if around else whole).append(box)
        around.append(box)
    return whole


def lines(
    boxes: Iterable[Box], opening: Callable[[Box], str], end: str, node: Callable[[Box], str]
) -> Iterator[str]:
    """The text of boxes.

    Args:
        boxes: The outermost boxes.
        opening: The line before the boxes inside one.
        end: The line after them.
        node: The line of a box with none inside.
    """
    for box in boxes:
        if box.inner:
            yield f"  {opening(box)}"
            yield from (f"  {each}" for each in lines(box.inner, opening, end, node))
            yield f"  {end}"
        else:
            yield f"  {node(box)}"
