"""The engine: runs recorded nodes backwards, newest first, calling hooks on the way."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from types import FrameType
from typing import Any

from flambeau.core.devices import exhaustion, headroom
from flambeau.core.kernels import kernel as kernels
from flambeau.core.kernels.lazy_cotangent import value_of
from flambeau.core.support.modes import enable_grad, kept_modes, modes, no_grad
from flambeau.core.tape import anomaly, gradient_hooks
from flambeau.core.tape.accumulated import Change, this_thread, undo
from flambeau.core.tape.node import Edge, Node
from flambeau.core.tape.nodes import AccumulateGrad, sparse_sum
from flambeau.core.values.tensor import Tensor


def running() -> Backward | None:
    """The innermost run on this thread, if any."""
    found = this_thread.backward
    if found is not None and not found.is_on_the_stack():
        # A debugger has left the run just as it ended.
        found = this_thread.backward = None
    return found


def current() -> Backward:
    """The innermost run on this thread.

    Raises:
        RuntimeError: None is running.
    """
    found = running()
    if found is None:
        raise RuntimeError("no backward is running on this thread")
    return found


class Backward:
    """One run of the tape from some outputs.

    A node's inputs were recorded before it, so running nodes from the newest to the oldest runs
    each node when all its cotangents are known. Accumulators run as soon as theirs are.

    Args:
        roots: Where to start: edges, each with the cotangent of that output, a Tensor.
        retain_graph: Keep the saved values of nodes, so that they can run again.
        create_graph: Record the computation of the gradients. The cotangents are then Tensors. They
            are Tensors too while a dual level is open, since they may have tangents, and arrays
            otherwise, except for sparse tensors on their way to a leaf.
        targets: Run only the nodes that lead to these edges; ``None`` runs everything.
        accumulate: With ``targets``: run the nodes of the targets too, so that leaves among them
            accumulate. Otherwise collect the targets' cotangents.
    """

    def __init__(
        self,
        roots: Sequence[tuple[tuple[Node, int], Any]],
        *,
        retain_graph: bool,
        create_graph: bool,
        targets: Sequence[Edge] | None = None,
        accumulate: bool = False,
    ) -> None:
        self.roots = roots
        self.keep = retain_graph
        self.records = create_graph
        self.as_tensors: bool = create_graph or modes.dual is not None
        self.goals: set[Node] | None = (
            None if targets is None else {each[0] for each in targets if each is not None}
        )
        self.captures: dict[Node, list[tuple[int, int]]] = {}
        self.captured: list[Any] = []
        if targets is not None and not accumulate:
            self.captured = [None] * len(targets)
            for place, edge in enumerate(targets):
                if edge is not None:
                    self.captures.setdefault(edge[0], []).append((edge[1], place))
        # The nodes to run, and the nodes that receive cotangents; ``None`` means all.
        self.running: set[Node] | None = None
        self.reached: set[Node] | None = None
        self.buffers: dict[Node, list[Any]] = {}
        self.seen: set[Node] = set()
        # Fast path: run every node; no anomaly mode, no trace.
        self.plain: bool = targets is None and modes.trace is None and not anomaly.enabled
        #: Notes of hooks, until the end of this run.
        self.notes: dict[Any, Any] = {}
        #: The backward in whose node or hook this one runs, if any.
        self.outer: Any = None
        #: Functions to call after all nodes have run.
        self.callbacks: list[Callable[[], Any]] = []
        #: The changes of this run to gradients, and the enclosing backward.
        self.changes: list[Change] = []
        #: The frame of `run`.
        self.frame: FrameType | None = None

    def is_on_the_stack(self) -> bool:
        """Whether `run` has been called on this thread, and has not ended."""
        frame = sys._getframe()
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is not None

    def reaches(self, node: Node | None) -> bool:
        """Whether the hooks of ``node`` are called in this run."""
        return node in (self.seen if self.reached is None else self.reached)

    def run(self) -> list[Any]:
        """Run, and give the cotangents of the targets in order, ``None`` where none arrived."""
        headroom.look()
        nodes, waiting = self._reachable()
        if self.goals is not None:
            nodes = self._choose(nodes)
            waiting = self._count_edges(nodes, waiting)
        reached = self.reached
        for edge, cotangent in self.roots:
            if reached is None or edge[0] in reached:
                array = None if cotangent is None else cotangent._read()
                self._send(edge, cotangent if self.as_tensors else array)
        self.outer = outer = running()
        if outer is not None:
            self.changes = outer.changes
        count = len(self.changes)
        try:
            self.frame = sys._getframe()
            this_thread.backward = self
            with kept_modes(), enable_grad() if self.records else no_grad():
                for each in [each for each, count in waiting.items() if not count]:
                    self._run_node(each)
                for node in nodes:
                    pulled = self._run_node(node)
                    if pulled is not None:
                        self._pass_on(node.edges, pulled, waiting)
                # A callback may queue another one.
                for each in self.callbacks:
                    with kept_modes():
                        each()
        except BaseException as error:
            undo(self.changes, count)
            named = exhaustion.named(error)
            if named is error:
                raise
            raise named from error.__cause__
        finally:
            this_thread.backward = outer
            self.frame = None
        return self.captured

    def _pass_on(self, edges: tuple[Edge, ...], pulled: Any, waiting: dict[Node, int]) -> None:
        """Send a node's input cotangents on, and run the accumulators that are complete."""
        reached, buffers = self.reached, self.buffers
        ready: list[Node] = []
        remaining = iter(pulled)
        for edge in edges:
            cotangent = next(remaining)
            if edge is None:
                continue
            after = edge[0]
            if reached is not None and after not in reached:
                continue
            if cotangent is not None:
                if after.outputs == 1 and after not in buffers:
                    buffers[after] = [cotangent]
                else:
                    self._send(edge, cotangent)
            if after.accumulates:
                count = waiting[after] = waiting[after] - 1
                if not count:
                    ready.append(after)
        for each in ready:
            self._run_node(each)

    def _reachable(self) -> tuple[list[Node], dict[Node, int]]:
        """The nodes that the roots lead to, newest first; and the edges to each accumulator."""
        nodes: list[Node] = []
        waiting: dict[Node, int] = {}
        stack: list[Node] = []
        seen = self.seen
        for (root, _), _ in self.roots:
            if root.accumulates:
                waiting[root] = 0
            elif root not in seen:
                stack.append(root)
            seen.add(root)
        while stack:
            node = stack.pop()
            nodes.append(node)
            for edge in node.edges:
                if edge is None:
                    continue
                before = edge[0]
                if before.accumulates:
                    waiting[before] = waiting.get(before, 0) + 1
                elif before in seen:
                    continue
                else:
                    stack.append(before)
                seen.add(before)
        nodes.sort(key=attrgetter("sequence"), reverse=True)
        return nodes, waiting

    def _choose(self, nodes: list[Node]) -> list[Node]:
        """Choose the nodes to run for the targets, and return those of ``nodes`` that take part."""
        assert self.goals is not None
        self.reached = set(self.goals)
        self.running = set() if self.captures else set(self.goals)
        for node in reversed(nodes):
            if any(edge is not None and edge[0] in self.reached for edge in node.edges):
                self.running.add(node)
                self.reached.add(node)
        if len(self.roots) == 1:
            # PyTorch calls the hooks of a sole root wherever it leads.
            self.reached.add(self.roots[0][0][0])
        return [node for node in nodes if node in self.reached]

    def _count_edges(self, nodes: list[Node], accumulators: Iterable[Node]) -> dict[Node, int]:
        """The number of edges from running nodes to each accumulator that takes part."""
        reached, running = self.reached or set(), self.running or set()
        waiting = {each: 0 for each in accumulators if each in reached}
        for node in nodes:
            if node in running:
                for edge in node.edges:
                    if edge is not None and edge[0] in waiting:
                        waiting[edge[0]] += 1
        return waiting

    def _send(self, edge: tuple[Node, int], cotangent: Any) -> None:
        node, number = edge
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * node.outputs
        before = buffer[number]
        if before is None:
            buffer[number] = cotangent
        elif self.as_tensors:
            buffer[number] = before + cotangent
        elif isinstance(before, Tensor) or isinstance(cotangent, Tensor):
            buffer[number] = sparse_sum(before, cotangent)
        else:
            buffer[number] = kernels.add_cotangents(value_of(before), value_of(cotangent))

    def _run_node(self, node: Node) -> Any:
        """Run one node with its hooks; ``None`` for a target that nothing else needs."""
        buffer = self.buffers.pop(node, None)
        if buffer is None:
            # No edge to this node carried a gradient; hooks are called all the same.
            buffer = [None] * node.outputs
        if not self.plain or node.has_hooks():
            with kept_modes():
                return self._run_watched(node, buffer)
        pulled = node.pull(buffer, self.as_tensors, self.keep)
        if not self.keep:
            node.spent = True
        return pulled

    def _run_watched(self, node: Node, buffer: list[Any]) -> Any:
        """`_run_node` for nodes with hooks, and under a trace or anomaly mode."""
        buffer = [value_of(each) for each in buffer]
        if isinstance(node, AccumulateGrad):
            buffer = [node.converted(each) for each in buffer]
        runs = self.running is None or node in self.running
        if runs and self.captures:
            self._capture(node, buffer)
        hooks = gradient_hooks.of_leaf(node) if node.accumulates else node.tensor_hooks
        if hooks or node.retained:
            buffer = gradient_hooks.on_outputs(node, hooks, buffer, self.as_tensors)
        if not runs:
            self._capture(node, buffer)
            return None
        if node.pre_hooks:
            buffer = gradient_hooks.before(node, buffer, self.as_tensors)
        trace = modes.trace
        if trace is not None:
            trace.before_pull(self, node, buffer)
        if anomaly.enabled:
            pulled = anomaly.watched(node, functools.partial(self._pull, node, buffer))
        else:
            pulled = self._pull(node, buffer)
        if not self.as_tensors:
            pulled = [value_of(each) for each in pulled]
        if trace is not None:
            pulled = trace.after_pull(self, pulled)
        if not self.keep:
            node.spent = True
        if node.post_hooks:
            pulled = gradient_hooks.after(node, pulled, buffer, self.as_tensors)
        return pulled

    def _pull(self, node: Node, buffer: list[Any]) -> Any:
        if self.reached is None:
            return node.pull(buffer, self.as_tensors, self.keep)
        return node.pull_towards(self.reached, buffer, self.as_tensors, self.keep)

    def _capture(self, node: Node, buffer: list[Any]) -> None:
        for number, place in self.captures.get(node, ()):
            self.captured[place] = buffer[number]
