"""Diagrams of models: the flow of data between modules, as Mermaid's text and as SVG.

Mermaid needs no dependency: JupyterLab, GitHub and GitLab turn the text into a picture themselves.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flambeau.profiler import tree
from flambeau.profiler.boxes import Box, lines, nested
from flambeau.profiler.calls import INPUT, OUTPUT, around
from flambeau.profiler.drawing import drawn


class Diagram(str):
    """The diagram of a model as Mermaid's text, which JupyterLab shows as a picture.

    With pygraphviz a notebook shows SVG above the rows of the summary instead. A module shows its
    shapes and parameters under the pointer, and a click on it leads to its row.
    """

    __slots__ = ("_arrows", "_boxes", "_rows")

    def __init__(self, *text: Any) -> None:
        self._boxes: Sequence[Box] = ()
        self._arrows: Sequence[tuple[str, str]] = ()
        self._rows: Sequence[Any] = ()

    def svg(self) -> str:
        """The diagram as SVG, without the rows.

        Raises:
            ImportError: pygraphviz is not installed.
        """
        return drawn(self._boxes, self._arrows, {})

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/vnd.mermaid": str(self), "text/plain": str(self)}
        # A page may show several diagrams.
        name = f"flambeau-{uuid.uuid4().hex}"
        ids = {row.path: f"{name}-{i}" for i, row in enumerate(self._rows)}
        try:
            picture = drawn(self._boxes, self._arrows, ids)
        except ImportError:
            return bundle
        style = (
            f"<style>#{name} :target {{background: #ffe8a0; color: #000}} "
            f"#{name} svg {{max-width: 100%; height: auto}}</style>"
        )
        rows = f'<div style="font-family:monospace">{tree.html_of(self._rows, ids)}</div>'
        return {"text/html": f'<div id="{name}">{style}{picture}{rows}</div>', **bundle}


def diagram(rows: Sequence[Any], depth: int | None, edges: Iterable[tuple[Any, Any]]) -> Diagram:
    """The diagram of the called modules among the rows of a summary.

    Args:
        rows: All rows, in the order of registration.
        depth: The depth to which modules are shown.
        edges: The flow of data between modules that call no others.
    """
    called = {each for row in rows if row.calls for each in around(row.path)}
    within = [each for each in rows if depth is None or each.depth <= depth]
    shown = [each for each in within if each.path in called]
    names: dict[Any, str] = {INPUT: "input"}
    names |= {row.path: f"m{i}" for i, row in enumerate(shown)}
    names[OUTPUT] = "output"
    boxes = nested([each for each in shown if each.depth or len(shown) == 1], names)
    order = [*names]
    ends = {tuple(order.index(_shown(end, names)) for end in edge) for edge in edges}
    named = [*names.values()]
    arrows = [(named[source], named[target]) for source, target in sorted(ends) if source != target]
    result = Diagram("\n".join(_mermaid(boxes, arrows)))
    result._boxes, result._arrows, result._rows = boxes, arrows, within
    return result


def _shown(end: Any, names: Mapping[Any, str]) -> Any:
    """The innermost shown module around a path."""
    return next(e for e in around(end) if e in names) if isinstance(end, str) else end


def _mermaid(boxes: Sequence[Box], arrows: Iterable[tuple[str, str]]) -> Iterator[str]:
    def node(box: Box) -> str:
        # Mermaid takes codes between # and ; for characters.
        plain = (e if e.isalnum() or e in " _-.:" else f"#{ord(e)};" for e in box.label)
        return f'{box.name}["{"".join(plain)}"]'

    yield from ("flowchart TD", "  input([input])")
    yield from lines(boxes, lambda box: f"subgraph {node(box)}", "end", node)
    yield "  output([output])"
    yield from (f"  {source} --> {target}" for source, target in arrows)
    yield ""
