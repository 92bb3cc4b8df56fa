"""A node of the tape: its edges to earlier nodes, and its hooks."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Container
from typing import Any, ClassVar, NamedTuple

from flambeau.core.support import world
from flambeau.core.support.handle import HookDict, RemovableHandle
from flambeau.core.tape import anomaly
from flambeau.core.values.tensor import Tensor

Edge = tuple["Node", int] | None

_next_sequence = itertools.count().__next__


def sequence_now() -> int:
    """A number above those of all nodes recorded so far."""
    return _next_sequence()


class Retained(NamedTuple):
    """A tensor whose gradient is kept at an output of a node.

    Attributes:
        tensor: A reference to the tensor whose ``.grad`` is set.
        changes: The in-place reshapes of the tensor since then; they give its gradient the present
            shape.
        at: The (node, output) that retains the gradient instead, when the tensor was reshaped in
            place.
    """

    tensor: weakref.ref[Tensor]
    changes: tuple[Callable[[Tensor], Tensor], ...] = ()
    at: tuple[Node, int] | None = None


class Node:
    """One recorded operator: knows its inputs' nodes and how to pull cotangents back to them.

    Attributes:
        edges: For each input, the node that made it and the index of the output there; ``None`` for
            an input that takes no gradient.
        sequence: Nodes recorded later have higher numbers.
        outputs: The number of results of the operator.
        spent: Whether it has run in a backward without ``retain_graph``.
        tensor_hooks: For some outputs, the hooks on the tensor itself.
        retained: For some outputs, the tensor whose ``.grad`` is retained.
        pre_hooks: Called before the node runs.
        post_hooks: Called after the node has run.
    """

    __slots__ = (
        "__weakref__", "_metadata", "edges", "outputs", "post_hooks", "pre_hooks", "retained",
        "sequence", "spent", "tensor_hooks",
    )  # fmt: skip

    #: Whether the node is the end of the tape at a leaf.
    accumulates: ClassVar[bool] = False

    def __init__(self, edges: tuple[Edge, ...], outputs: int = 1) -> None:
        self.edges: tuple[Edge, ...] = edges
        self.outputs: int = outputs
        self.sequence: int = _next_sequence()
        self.spent: bool = False
        self.tensor_hooks: dict[int, HookDict] | None = None
        self.retained: dict[int, Retained] | None = None
        self.pre_hooks: HookDict | None = None
        self.post_hooks: HookDict | None = None
        if anomaly.enabled:
            anomaly.remember(self)

    def has_hooks(self) -> Any:
        """Whether hooks are to be called when the node runs."""
        return self.tensor_hooks or self.retained or self.pre_hooks or self.post_hooks

    def name(self) -> str:
        """The node's class name, such as ``AddBackward0``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes of the inputs, ``(None, 0)`` for those that take no gradient."""
        return tuple((None, 0) if edge is None else edge for edge in self.edges)

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes."""
        try:
            return self._metadata
        except AttributeError:
            self._metadata: dict[Any, Any] = {}
            return self._metadata

    def _sequence_nr(self) -> int:
        return self.sequence

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node has run.

        A tuple that it returns replaces ``grad_inputs``.
        """
        if self.post_hooks is None:
            self.post_hooks = HookDict()
        return _added(self.post_hooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before this node runs.

        A tuple that it returns replaces ``grad_outputs``.
        """
        if self.pre_hooks is None:
            self.pre_hooks = HookDict()
        return _added(self.pre_hooks, hook)

    def tensor_hooks_of(self, output_nr: int) -> HookDict:
        """The hooks on the tensor that is output ``output_nr``."""
        if self.tensor_hooks is None:
            self.tensor_hooks = {}
        return self.tensor_hooks.setdefault(output_nr, HookDict())

    def retain(self, tensor: Tensor) -> None:
        """Add the gradient of output ``tensor`` to its ``.grad`` when it is known."""
        if self.retained is None:
            self.retained = {}
        if not self.retains(tensor):
            self.retained[tensor._output_nr] = Retained(weakref.ref(tensor))

    def retains(self, tensor: Tensor) -> bool:
        """Whether `retain` was called for ``tensor``."""
        found = (self.retained or {}).get(tensor._output_nr)
        return found is not None and found.tensor() is tensor

    def release(self, output_nr: int) -> None:
        """Undo `retain` for output ``output_nr``."""
        found = self.retained.pop(output_nr, None) if self.retained else None
        if found is not None and found.at is not None:
            node, output_nr = found.at
            (node.retained or {}).pop(output_nr, None)

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """The cotangents of the inputs, in order, from those of the outputs.

        Args:
            cotangents: One per output, ``None`` where there is none: arrays or, with
                ``as_tensors``, Tensors whose computation is recorded.
            as_tensors: See ``cotangents``; the result is of the same kind. An array may still be a
                lazy cotangent, if it is for a node that takes those.
            keep: Whether the node may be run again.

        Raises:
            RuntimeError: An earlier run freed the saved tensors of the node.
        """
        raise NotImplementedError(f"{self.name()} does not define its gradient")

    def takes_lazy_cotangents(self) -> bool:
        """Whether `pull` may be given a `flambeau.core.kernels.lazy_cotangent.LazyCotangent`."""
        return False

    def pull_towards(
        self, wanted: Container[Node], cotangents: list[Any], as_tensors: bool, keep: bool
    ) -> Any:
        """`pull`, where only the cotangents for edges to the ``wanted`` nodes matter."""
        return self.pull(cotangents, as_tensors, keep)

    def __call__(self, *cotangents: Tensor | None) -> Any:
        """Run this node alone on the cotangents of its outputs."""
        results = tuple(self.pull(list(cotangents), as_tensors=True, keep=True))
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


def _added(hooks: HookDict, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def move_history(tensor: Tensor, node: Node | None, output_nr: int) -> None:
    """Make ``tensor`` output ``output_nr`` of ``node``, as after an in-place write.

    Its hooks stay with the value on which they were registered; a retained gradient follows the
    tensor. Without a node the tensor requires no gradient.
    """
    history_mover(tensor, node, output_nr)()


def history_mover(tensor: Tensor, node: Node | None, output_nr: int) -> Callable[[], None]:
    """A function that does the work of `move_history`, and can be repeated if interrupted."""
    before, output_nr_before = tensor._grad_fn, tensor._output_nr
    retains = before is not None and before.retains(tensor)

    def move() -> None:
        if tensor._watched and (before is None) is not (node is None):
            world.bump()
        tensor._grad_fn, tensor._output_nr, tensor._requires_grad = (
            node,
            output_nr,
            node is not None,
        )
        if retains:
            if node is not None:
                node.retain(tensor)
            assert before is not None
            before.release(output_nr_before)

    return move


def reshape_history(tensor: Tensor, node: Node, change: Callable[[Tensor], Tensor]) -> None:
    """Make ``tensor`` the output of ``node``, an in-place reshape of its former value.

    The elements stay the same, so a retained gradient counts all uses, before and after.

    Args:
        tensor: The tensor, which is not a leaf.
        node: Has one output, and an edge to the tensor's former node.
        change: Reshapes a gradient.
    """
    before, output_nr = tensor._grad_fn, tensor._output_nr
    assert before is not None
    if before.retains(tensor):
        assert before.retained is not None
        at = before.retained[output_nr].at or (before, output_nr)
        kept = at[0].retained[at[1]]
        at[0].retained[at[1]] = kept._replace(changes=(*kept.changes, change))
        node.retained = {0: Retained(kept.tensor, at=at)}
        if tensor._grad is not None:
            tensor._grad = change(tensor._grad)
    tensor._grad_fn, tensor._output_nr = node, 0
