"""Finding subgraphs that match a pattern graph."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import _get_attr
from flambeau.fx.node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """A subgraph that matches a pattern.

    Attributes:
        anchors: The pattern's nodes without users in the pattern.
        nodes_map: The node in the graph, or a constant, for each node of the pattern.
        placeholder_nodes: The values of the pattern's inputs, in order.
        returning_nodes: The nodes for the pattern's results.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)


class SubgraphMatcher:
    """Finds a pattern in graphs.

    Args:
        pattern: The pattern.
        match_output: Whether its output must match the graph's.
        match_placeholder: Whether its inputs match inputs only, instead of any value.
        remove_overlapping_matches: Whether to drop matches that share nodes with an earlier match.
        ignore_literals: Whether constants match any constant.

    Raises:
        ValueError: The pattern is empty.
        AssertionError: The pattern has unused nodes.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        if not len(pattern.nodes):
            raise ValueError("a pattern must not be an empty graph")
        for node in pattern.nodes:
            if node.op != "output" and not node.users and node.op != "placeholder":
                raise AssertionError(f"the pattern computes '{node}', but does not use it")
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        output = pattern.output_node()
        self.pattern_placeholder_nodes: list[Any] = pattern.find_nodes(op="placeholder")
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        self.pattern_anchors = [output]
        if not match_output:
            self.pattern_anchors: list[Node] = [
                e for e in output.all_input_nodes if len(e.users) == 1
            ]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The matches in a graph whose inner values have no other users.

        Args:
            graph: The graph.
            node_name_match: Nodes whose names contain this text match the pattern's anchors.
        """
        candidates = [
            [node for node in graph.nodes if self._alike(anchor, node, node_name_match)]
            for anchor in self.pattern_anchors
        ]
        found = []
        for nodes in itertools.product(*candidates):
            mapped: dict[Node, Any] = {}
            matched = all(
                self._match_nodes(anchor, node, mapped, node_name_match)
                for anchor, node in zip(self.pattern_anchors, nodes, strict=True)
            )
            if matched and self._is_closed(mapped) and self._is_complete(mapped):
                found.append(
                    InternalMatch(
                        list(self.pattern_anchors),
                        mapped,
                        [mapped[each] for each in self.pattern_placeholder_nodes],
                        [mapped[each] for each in self.pattern_returning_nodes],
                    )
                )
        return self._without_overlaps(found) if self.remove_overlapping_matches else found

    def _is_complete(self, mapped: dict[Node, Any]) -> bool:
        needed = (*self.pattern_placeholder_nodes, *self.pattern_returning_nodes)
        return all(each in mapped for each in needed)

    def _is_closed(self, mapped: dict[Node, Any]) -> bool:
        """Whether values that the pattern does not return are unused outside the match."""
        inside = {node for part, node in mapped.items() if part.op != "placeholder"}
        return all(
            user in inside
            for part, node in mapped.items()
            if part.op != "placeholder" and part not in self.pattern_returning_nodes
            for user in node.users
        )

    @staticmethod
    def _without_overlaps(matches: list[InternalMatch]) -> list[InternalMatch]:
        taken: set[Node] = set()
        kept = []
        for match in matches:
            nodes = {
                node
                for part, node in match.nodes_map.items()
                if part.op not in ("placeholder", "output")
            }
            if not nodes & taken:
                taken |= nodes
                kept.append(match)
        return kept

    def _alike(self, part: Node, node: Node, name: str = "") -> bool:
        """Whether two nodes have the same operation, regardless of their arguments."""
        if part.op == "placeholder" and not self.match_placeholder:
            return True
        if name and name in node.name:
            return True
        if part.op != node.op:
            return False
        if part.op in ("placeholder", "output"):
            return True
        return self._same_members(part, node) if part.op == "get_attr" else (
            part.target == node.target
        )  # fmt: skip

    @staticmethod
    def _same_members(part: Node, node: Node) -> bool:
        """Whether both nodes read tensors of the same class; values are not compared."""
        ours = _get_attr(part.graph.owning_module, str(part.target))
        theirs = _get_attr(node.graph.owning_module, str(node.target))
        return type(ours) is type(theirs) and isinstance(ours, Tensor)

    def _match_nodes(self, part: Node, node: Node, mapped: dict[Node, Any], name: str = "") -> bool:
        """Whether a node and its inputs match; ``mapped`` collects the matches."""
        if part in mapped:
            return mapped[part] is node
        if any(node is each for each in mapped.values()) or not self._alike(part, node, name):
            return False
        before = dict(mapped)
        mapped[part] = node
        if part.op == "placeholder":
            return True
        same_names = list(part.kwargs) == list(node.kwargs)
        if same_names and self._match_values(
            (*part.args, *part.kwargs.values()), (*node.args, *node.kwargs.values()), mapped
        ):
            return True
        mapped.clear()
        mapped.update(before)
        return False

    def _match_values(self, ours: Any, theirs: Any, mapped: dict[Node, Any]) -> bool:
        return len(ours) == len(theirs) and all(
            self._match_value(our, their, mapped) for our, their in zip(ours, theirs, strict=True)
        )

    def _match_value(self, ours: Any, theirs: Any, mapped: dict[Node, Any]) -> bool:
        if isinstance(ours, Node) and isinstance(theirs, Node):
            return self._match_nodes(ours, theirs, mapped)
        if isinstance(ours, Node):
            # An input of the pattern may match a constant in the graph.
            if ours.op != "placeholder":
                return self.ignore_literals
            return bool(mapped.setdefault(ours, theirs) == theirs)
        if isinstance(theirs, Node):
            return self.ignore_literals
        if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
            return self._match_values(ours, theirs, mapped)
        return self.ignore_literals or (type(ours) is type(theirs) and bool(ours == theirs))
