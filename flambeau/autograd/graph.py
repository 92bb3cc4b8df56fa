"""The recorded graph as a user sees it: nodes, edges, and hooks on several tensors at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from flambeau.autograd.saved_tensors import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from flambeau.core.tape import engine
from flambeau.core.tape import nodes as tape
from flambeau.core.tape.node import Node
from flambeau.core.values.tensor import Tensor

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu",
    "saved_tensors_hooks",
]  # fmt: skip


class GradientEdge(NamedTuple):
    """The edge of a tensor; replaces it in `autograd.grad` and `autograd.backward`.

    Attributes:
        node: The node that made the tensor, or its accumulator.
        output_nr: The index of the tensor among the node's outputs.
    """

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge along which the gradient of ``tensor`` flows.

    An edge keeps the graph, but not the tensor's elements.

    Raises:
        RuntimeError: ``tensor`` does not require grad.
    """
    edge = tape.edge_of(tensor)
    if edge is None:
        raise RuntimeError(
            f"a tensor of shape {list(tensor.shape)} that does not require grad has no edge"
        )
    return GradientEdge(*edge)


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Count one in-place write to each tensor, without writing.

    Raises:
        RuntimeError: A tensor was made in `inference_mode`.
    """
    tensors = (tensor,) if isinstance(tensor, Tensor) else tuple(tensor)
    for each in tensors:
        if each.is_inference():
            raise RuntimeError("the writes of inference tensors are not counted")
    for each in tensors:
        each._cell.version += 1


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[..., None],
    *,
    mode: Literal["all", "any"] = "all",
) -> MultiGradHandle:
    """Call a hook once per backward, when the gradients of several tensors are known.

    Args:
        tensors: The tensors; a tensor that does not require grad counts as one without a gradient.
        fn: With ``mode="all"`` called as ``fn(grads)`` when all gradients of this backward are
            known, with ``None`` for tensors that it does not reach; with ``mode="any"`` called as
            ``fn(grad)`` at the first gradient. Its result is ignored.
        mode: See ``fn``.

    Returns:
        A handle whose ``remove()`` removes the hook.

    Raises:
        ValueError: ``mode`` is neither ``"all"`` nor ``"any"``.
        RuntimeError: With ``mode="any"`` a tensor does not require grad.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"mode must be 'all' or 'any', got {mode!r}")
    shared = _Arrivals(tuple(tensors), fn, mode)
    handles = [
        each.register_hook(shared.hook(place))
        for place, each in enumerate(tensors)
        if mode == "any" or each.requires_grad
    ]
    return MultiGradHandle(handles)


class _Arrivals:
    """Which gradients of a group of tensors have arrived in the running backward."""

    def __init__(self, tensors: tuple[Tensor, ...], fn: Callable[..., None], mode: str) -> None:
        self.nodes = [edge and edge[0] for edge in map(tape.edge_of, tensors)]
        self.fn = fn
        self.mode = mode

    def hook(self, place: int) -> Callable[[Any], None]:
        """The hook on the tensor at ``place``."""

        def arrived(grad: Any) -> None:
            run = engine.current()
            grads = run.notes.setdefault(self, {})
            grads[place] = grad
            if self.mode == "any":
                if len(grads) == 1:
                    self.fn(grad)
            elif len(grads) == sum(run.reaches(node) for node in self.nodes):
                self.fn([grads.get(i) for i in range(len(self.nodes))])

        return arrived


class MultiGradHandle:
    """Removes the hooks of `register_multi_grad_hook`; works as a context manager too."""

    def __init__(self, handles: Sequence[Any]) -> None:
        self.handles: tuple[Any, ...] = tuple(handles)

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        for each in self.handles:
            each.remove()

    def __enter__(self) -> MultiGradHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()
