"""Diagrams of models: the flow of data between modules, as Mermaid's text.

Mermaid needs no dependency: JupyterLab, GitHub and GitLab turn the text into SVG themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flambeau.profiler.calls import INPUT, OUTPUT


class Diagram(str):
    """Mermaid's text of a diagram, which JupyterLab shows as a picture."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/vnd.mermaid": str(self), "text/plain": str(self)}


def diagram(rows: Sequence[Any], depth: int | None, edges: Iterable[tuple[Any, Any]]) -> Diagram:
    """The diagram of the called modules among the rows of a summary.

    Args:
        rows: All rows, in the order of registration.
        depth: The depth to which modules are shown.
        edges: The flow of data between modules that call no others.
    """
    called = {each for row in rows if row.calls for each in _around(row.path)}
    shown = [e for e in rows if e.path in called and (depth is None or e.depth <= depth)]
    names: dict[Any, str] = {row.path: f"m{i}" for i, row in enumerate(shown)}
    names |= {INPUT: "input", OUTPUT: "output"}
    ends = ((_shown(source, names), _shown(target, names)) for source, target in edges)
    arrows = dict.fromkeys((source, target) for source, target in ends if source != target)
    boxes = _boxes([each for each in shown if each.depth or len(shown) == 1], names)
    return Diagram(
        "\n".join(
            [
                "flowchart TD",
                "  input([input])",
                *boxes,
                "  output([output])",
                *(f"  {names[source]} --> {names[target]}" for source, target in arrows),
                "",
            ]
        )
    )


def _around(path: str) -> Iterator[str]:
    """A path, and those of the modules around it."""
    yield path
    while path:
        path = path.rpartition(".")[0]
        yield path


def _shown(end: Any, names: Mapping[Any, str]) -> Any:
    """The innermost shown module around a path."""
    return next(e for e in _around(end) if e in names) if isinstance(end, str) else end


def _boxes(rows: Sequence[Any], names: Mapping[Any, str]) -> Iterator[str]:
    """A node for each module, and a box for each one with others inside."""
    around: list[Any] = []
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        while around and around[-1].depth >= row.depth:
            around.pop()
            yield f"{'  ' * (len(around) + 1)}end"
        indent = "  " * (len(around) + 1)
        name = row.path.rpartition(".")[2]
        label = _escaped(f"{name}: {row.class_name}" if name else row.class_name)
        if following is not None and following.depth > row.depth:
            around.append(row)
            yield f'{indent}subgraph {names[row.path]}["{label}"]'
        else:
            yield f'{indent}{names[row.path]}["{label}"]'
    while around:
        around.pop()
        yield f"{'  ' * (len(around) + 1)}end"


def _escaped(label: str) -> str:
    """``label`` for Mermaid, which takes codes between # and ; for characters."""
    return "".join(e if e.isalnum() or e in " _-.:" else f"#{ord(e)};" for e in label)
