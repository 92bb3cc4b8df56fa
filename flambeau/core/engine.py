"""The engine: runs recorded nodes backwards, newest first, calling hooks on the way."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

from flambeau.core import kernel as kernels
from flambeau.core import tape
from flambeau.core.modes import enable_grad, modes, no_grad
from flambeau.core.tape import AccumulateGrad, Edge, Node
from flambeau.core.tensor import Tensor


class Backward:
    """One run of the tape from some outputs.

    Args:
        roots: Where to start: edges, each with the cotangent of that output.
        retain_graph: Keep what the nodes saved, so that they can run again.
        create_graph: Record the gradients' own computation.
        targets: Collect the cotangents of these edges instead of accumulating into leaves;
            ``None`` accumulates into every leaf.
        accumulate: With ``targets``: still accumulate into those of them that are leaves.
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
        self.as_tensors = create_graph
        self.accumulate = accumulate
        self.targets: dict[tuple[Node, int], list[int]] = {}
        for i, edge in enumerate(targets or ()):
            if edge is not None:
                self.targets.setdefault(edge, []).append(i)
        self.captured: list[Any] = [None] * len(targets or ())
        self.everything = targets is None
        self.waiting: dict[Node, int] = {}
        self.buffers: dict[Node, list[Any]] = {}

    def run(self) -> list[Any]:
        """Run, and give the cotangents of the targets in order, ``None`` where none arrived."""
        starts = [node for (node, _), _ in self.roots]
        self._count_consumers(starts)
        needed = None if self.everything else self._needed(starts)
        for edge, cotangent in self.roots:
            self._send(edge, cotangent)
        # Accumulators run as soon as they can, then nodes from the newest to the oldest.
        ready = [_priority(node) for node in dict.fromkeys(starts) if self.waiting[node] == 0]
        heapq.heapify(ready)
        with enable_grad() if self.as_tensors else no_grad():
            while ready:
                node = heapq.heappop(ready)[-1]
                pulled = self._run_node(node, needed)
                for i, edge in enumerate(node.edges):
                    if edge is None:
                        continue
                    if pulled is not None and pulled[i] is not None:
                        self._send(edge, pulled[i])
                    after = edge[0]
                    self.waiting[after] -= 1
                    if self.waiting[after] == 0:
                        heapq.heappush(ready, _priority(after))
        return self.captured

    def _count_consumers(self, starts: list[Node]) -> None:
        waiting = self.waiting
        stack = []
        for node in starts:
            if node not in waiting:
                waiting[node] = 0
                stack.append(node)
        while stack:
            for edge in stack.pop().edges:
                if edge is None:
                    continue
                after = edge[0]
                if after in waiting:
                    waiting[after] += 1
                else:
                    waiting[after] = 1
                    stack.append(after)

    def _needed(self, starts: list[Node]) -> set[Node]:
        """The nodes on a path to a target."""
        goals = {node for node, _ in self.targets}
        needed: set[Node] = set()
        # Inputs were recorded before the nodes that use them, so one sweep upwards suffices.
        for node in sorted(self.waiting, key=lambda each: each.sequence):
            if any(
                edge is not None and (edge[0] in needed or edge[0] in goals) for edge in node.edges
            ):
                needed.add(node)
        return needed

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
        else:
            buffer[number] = kernels.add(before, cotangent)

    def _run_node(self, node: Node, needed: set[Node] | None) -> Any:
        buffer = self.buffers.pop(node, None)
        if buffer is None:
            return None  # reached by edges that carried no gradient
        if node.tensor_hooks or node.pre_hooks or node.retained or isinstance(node, AccumulateGrad):
            buffer = self._run_pre_hooks(node, buffer)
        if needed is not None:
            self._capture(node, buffer)
            if isinstance(node, AccumulateGrad):
                if not (self.accumulate and (node, 0) in self.targets):
                    return None
            elif node not in needed:
                return None
        if modes.trace is not None and not tape.is_traced(node) and node.edges:
            modes.trace.refuse_old_node(node)
        pulled = node.pull(buffer, self.as_tensors, self.keep)
        if not self.keep:
            node.spent = True
        return self._run_post_hooks(node, pulled, buffer) if node.post_hooks else pulled

    def _capture(self, node: Node, buffer: list[Any]) -> None:
        for number, cotangent in enumerate(buffer):
            for i in self.targets.get((node, number), ()):
                self.captured[i] = cotangent

    # Hooks speak Tensors; between them the engine passes arrays unless gradients are recorded.

    def _wrap(self, cotangent: Any) -> Any:
        if cotangent is None or self.as_tensors:
            return cotangent
        return Tensor._wrap(cotangent)

    def _unwrap(self, result: Any) -> Any:
        if result is None or self.as_tensors:
            return result
        return result._read()

    def _run_pre_hooks(self, node: Node, buffer: list[Any]) -> list[Any]:
        buffer = list(buffer)
        if isinstance(node, AccumulateGrad):
            hooks_by_output = {0: node.variable._hooks} if node.variable._hooks else {}
        else:
            hooks_by_output = node.tensor_hooks or {}
        for number, hooks in hooks_by_output.items():
            if buffer[number] is None:
                continue
            for hook in tuple(hooks.values()):
                result = hook(self._wrap(buffer[number]))
                if result is not None:
                    buffer[number] = self._unwrap(_checked(result, hook))
        if node.pre_hooks:
            cotangents = tuple(map(self._wrap, buffer))
            for hook in tuple(node.pre_hooks.values()):
                result = hook(cotangents)
                if result is not None:
                    cotangents = result if isinstance(result, tuple) else (result,)
            buffer = list(map(self._unwrap, cotangents))
        for number, reference in (node.retained or {}).items():
            tensor = reference()
            if tensor is not None and buffer[number] is not None:
                tensor.grad = self._wrap(buffer[number])
        return buffer

    def _run_post_hooks(self, node: Node, pulled: Any, buffer: list[Any]) -> Any:
        assert node.post_hooks is not None
        grad_outputs = tuple(map(self._wrap, buffer))
        grad_inputs = tuple(map(self._wrap, pulled))
        for hook in tuple(node.post_hooks.values()):
            result = hook(grad_inputs, grad_outputs)
            if result is not None:
                result = result if isinstance(result, tuple) else (result,)
                if len(result) != len(grad_inputs):
                    raise RuntimeError(
                        f"a hook on {node.name()} returned {len(result)} gradients "
                        f"for {len(grad_inputs)} inputs"
                    )
                grad_inputs = result
        return tuple(map(self._unwrap, grad_inputs))


def _checked(result: Any, hook: Any) -> Any:
    if not isinstance(result, Tensor):
        name = getattr(hook, "__name__", repr(hook))
        raise TypeError(
            f"tensor hook {name} must return a Tensor or None, got {type(result).__name__}"
        )
    return result


def _priority(node: Node) -> tuple[int, int, Node]:
    # The sequence number is unique, so nodes themselves are never compared.
    return (not isinstance(node, AccumulateGrad), -node.sequence, node)
