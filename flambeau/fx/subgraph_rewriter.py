"""Replacing subgraphs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from flambeau.fx._symbolic_trace import symbolic_trace
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule, _assign_attr, _get_attr
from flambeau.fx.node import Node
from flambeau.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from flambeau.nn.module import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """A match of a pattern.

    Attributes:
        anchor: The last matched node.
        nodes_map: The matched node for each node of the pattern.
    """

    anchor: Node
    nodes_map: dict[Node, Any]


@dataclass
class ReplacedPatterns:
    """A match of a pattern and its replacement.

    Attributes:
        anchor: The last matched node.
        nodes_map: The matched node for each node of the pattern.
        replacements: The new nodes.
    """

    anchor: Node
    nodes_map: dict[Node, Any]
    replacements: list[Node]


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace each subgraph that matches ``pattern`` by ``replacement``.

    Matches do not overlap; the first of overlapping matches is replaced. Inner values of a match
    must have no other users.

    Args:
        gm: The module, which is changed and recompiled.
        pattern: The pattern: a function or module of the subgraph's inputs.
        replacement: The replacement, with the same parameters.

    Returns:
        The matches.

    >>> import flambeau
    >>> from flambeau import fx
    >>> traced = fx.symbolic_trace(lambda x: (x * x).sum() + 1)
    >>> found = fx.replace_pattern(traced, lambda x: x * x, lambda x: x.abs())
    >>> print(traced.code.strip())
    def forward(self, x):
        abs_1 = x.abs();  x = None
        sum_1 = abs_1.sum();  abs_1 = None
        add = sum_1 + 1;  sum_1 = None
        return add
    """
    replaced = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(each.anchor, each.nodes_map) for each in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Any,
    replacement: Any = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """`replace_pattern` for the matches that all filters accept.

    Args:
        gm: The module, which is changed and recompiled.
        pattern: The pattern: a function, a graph or a GraphModule.
        replacement: The replacement; ``None`` if ``replacement_callback`` returns it.
        match_filters: Predicates of the match, the module's graph and the pattern's.
        ignore_literals: Constants of the pattern match any constant.
        replacement_callback: Returns the replacement graph of a match.
        node_name_match: Nodes whose names contain this text match the pattern's last ones.

    Returns:
        The matches and their replacements.
    """
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    matches = [
        each
        for each in matcher.match(graph, node_name_match=node_name_match)
        if all(accepts(each, graph, pattern_graph) for accepts in match_filters or ())
    ]
    if replacement is None and replacement_callback is None:
        raise AssertionError("a replacement or a replacement_callback must be given")
    common = None if replacement is None else _graph_of(replacement)
    # Replacements of nodes that later matches refer to.
    moved: dict[Any, Any] = {}
    replaced = []
    for match in matches:
        if replacement_callback is not None:
            new = replacement_callback(match, graph, pattern_graph)
        else:
            assert common is not None
            new = common
        replaced.append(_replace(graph, match, new, moved))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_members(gm, replacement)
    return replaced


def _graph_of(source: Any) -> Graph:
    if isinstance(source, Graph):
        return source
    return source.graph if isinstance(source, GraphModule) else symbolic_trace(source).graph


def _replace(
    graph: Graph, match: InternalMatch, new: Graph, moved: dict[Any, Any]
) -> ReplacedPatterns:
    """Insert the nodes of ``new`` and erase the match."""
    inputs = [node for node in new.nodes if node.op == "placeholder"]
    if len(inputs) != len(match.placeholder_nodes):
        raise AssertionError(
            f"the pattern has {len(match.placeholder_nodes)} parameters, but its replacement "
            f"{len(inputs)}"
        )
    for part, given in list(match.nodes_map.items()):
        if part.op == "placeholder" and isinstance(given, Node):
            match.nodes_map[part] = moved.get(given, given)
    match.placeholder_nodes = [
        moved.get(each, each) if isinstance(each, Node) else each
        for each in match.placeholder_nodes
    ]
    copies: dict[Node, Any] = dict(zip(inputs, match.placeholder_nodes, strict=True))
    with graph.inserting_before(_insert_point(graph, match)):
        returned = graph.graph_copy(new, copies)
    results = (returned,) if isinstance(returned, Node) else tuple(returned)
    if len(results) != len(match.returning_nodes):
        raise AssertionError(
            f"the pattern returns {len(match.returning_nodes)} values, but its replacement "
            f"{len(results)}"
        )
    for old, result in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(result)
        moved[old] = result
    for part, old in reversed(_in_order(match)):
        if part.op not in ("placeholder", "output"):
            graph.erase_node(old)
    replacements = [each for node, each in copies.items() if node.op != "placeholder"]
    return ReplacedPatterns(match.anchors[0], match.nodes_map, replacements)


def _in_order(match: InternalMatch) -> list[tuple[Node, Any]]:
    """The pattern's nodes in order, with the matched nodes."""
    pattern = match.anchors[0].graph
    return [(node, match.nodes_map[node]) for node in pattern.nodes if node in match.nodes_map]


def _insert_point(graph: Graph, match: InternalMatch) -> Node:
    """The first user of the match's results, or the node after it."""
    users = {user for node in match.returning_nodes for user in node.users}
    for node in graph.nodes:
        if node in users:
            return node
    last = next(node for node in reversed(graph.nodes) if node in match.returning_nodes)
    return last.next


def _take_members(gm: GraphModule, replacement: Module) -> None:
    """Copy the replacement's members that its graph refers to into ``gm``."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        try:
            _get_attr(gm, node.target)
        except AttributeError:
            try:
                member = _get_attr(replacement, node.target)
            except AttributeError:
                raise RuntimeError(
                    f"node '{node}' refers to '{node.target}', which neither the module nor the "
                    "replacement has"
                ) from None
            _assign_attr(copy.deepcopy(member), gm, node.target)
    gm.graph.lint()
