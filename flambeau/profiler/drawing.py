"""Diagrams drawn as SVG by Graphviz, which the package pygraphviz brings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import import_module

from flambeau.profiler import text, tree
from flambeau.profiler.boxes import Box, lines

_STYLE = """
  compound=true; fontname="Helvetica"; style=rounded; color="#8899aa";
  node [shape=box style="rounded,filled" fillcolor="#eef3fa" fontname="Helvetica"];
  input [label=input shape=ellipse tooltip=input];
  output [label=output shape=ellipse tooltip=output];"""


def drawn(boxes: Sequence[Box], arrows: Iterable[tuple[str, str]], links: Mapping[str, str]) -> str:
    """The SVG of a diagram.

    Args:
        boxes: The outermost boxes.
        arrows: The names of boxes that data flows between.
        links: The ids of the elements to which modules lead, by the modules' paths.

    Raises:
        ImportError: pygraphviz is not installed.
    """
    try:
        pygraphviz = import_module("pygraphviz")
    except ImportError as error:
        raise ImportError(
            "Diagram.svg() needs pygraphviz, whose wheels contain Graphviz: "
            "pip install 'pygraphviz>=2'. The diagram itself is Mermaid's text"
        ) from error
    graph = pygraphviz.AGraph("\n".join(_source(boxes, arrows, links)))
    whole = graph.draw(format="svg", prog="dot").decode()
    # HTML takes no declaration and no document type.
    return whole[whole.index("<svg") :]


def _source(
    boxes: Sequence[Box], arrows: Iterable[tuple[str, str]], links: Mapping[str, str]
) -> Iterator[str]:
    """The diagram in Graphviz's language."""

    def opening(box: Box) -> str:
        return f"subgraph cluster_{box.name} {{ {'; '.join(_attributes(box, links))};"

    def node(box: Box) -> str:
        return f"{box.name} [{' '.join(_attributes(box, links))}];"

    yield f"digraph {{{_STYLE}"
    yield from lines(boxes, opening, "}", node)
    # Graphviz has no arrows between boxes with others inside, but may cut one short at such a box.
    inside = dict(_nodes_inside(boxes))
    for source, target in arrows:
        ends = [f"ltail=cluster_{source}"] * (source in inside)
        ends += [f"lhead=cluster_{target}"] * (target in inside)
        source, target = inside.get(source, source), inside.get(target, target)
        yield f'  {source} -> {target} [{" ".join(ends)} edgetooltip=" "];'
    yield "}"


def _attributes(box: Box, links: Mapping[str, str]) -> Iterator[str]:
    row = box.row
    facts = [
        f"{row.path or '(model)'} ({row.class_name})",
        f"output {tree.output_text(row)}",
        f"{row.params:,} parameters, {text.size(row.bytes)}",
        f"{text.count(row.flops or 0)} FLOPs",
    ]
    yield f'label="{_escaped(box.label)}"'
    yield f'tooltip="{"&#10;".join(map(_escaped, facts))}"'
    if row.path in links:
        yield f'URL="#{links[row.path]}"'
        yield 'target="_self"'


def _nodes_inside(boxes: Iterable[Box]) -> Iterator[tuple[str, str]]:
    """The name of each box with others inside, and of a node in it."""
    for box in boxes:
        if box.inner:
            first = box
            while first.inner:
                first = first.inner[0]
            yield box.name, first.name
            yield from _nodes_inside(box.inner)


def _escaped(value: str) -> str:
    """A text for Graphviz, which reads entities and backslashes."""
    return escape(value).replace("\\", "\\\\")
