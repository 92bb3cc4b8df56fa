"""The tape: nodes that remember how tensors were made, and the engine that runs them backwards.

A node keeps the arrays that went into its operator. Arrays never change, so no in-place write
after the forward can corrupt a gradient.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable
from typing import Any

from flambeau.core import kernel as kernels
from flambeau.core.handle import HookDict, RemovableHandle
from flambeau.core.kernel import Kernel
from flambeau.core.modes import modes
from flambeau.core.tensor import Tensor

Edge = tuple["Node", int] | None

_next_sequence = itertools.count().__next__


def sequence_now() -> int:
    """A number above those of all nodes recorded so far."""
    return _next_sequence()


class Node:
    """One recorded operator: knows its inputs' nodes and how to pull cotangents back to them.

    Attributes:
        edges: For each input, the node that made it and which of that node's outputs it is;
            ``None`` for an input that takes no gradient.
        sequence: Nodes recorded later have higher numbers.
        outputs: How many results the operator had.
        spent: It has run in a backward that did not keep the graph.
    """

    __slots__ = (
        "__weakref__", "_metadata", "edges", "outputs", "post_hooks", "pre_hooks", "retained",
        "sequence", "spent", "tensor_hooks",
    )  # fmt: skip

    def __init__(self, edges: tuple[Edge, ...], outputs: int = 1) -> None:
        self.edges = edges
        self.outputs = outputs
        self.sequence = _next_sequence()
        self.spent = False
        self.tensor_hooks: dict[int, HookDict] | None = None
        self.retained: dict[int, Any] | None = None
        self.pre_hooks: HookDict | None = None
        self.post_hooks: HookDict | None = None

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
        """Call ``hook(grad_inputs, grad_outputs)`` after this node has run."""
        if self.post_hooks is None:
            self.post_hooks = HookDict()
        handle = RemovableHandle(self.post_hooks)
        self.post_hooks[handle.id] = hook
        return handle

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before this node runs."""
        if self.pre_hooks is None:
            self.pre_hooks = HookDict()
        handle = RemovableHandle(self.pre_hooks)
        self.pre_hooks[handle.id] = hook
        return handle

    def tensor_hooks_of(self, output_nr: int) -> HookDict:
        """The hooks on the tensor that is output ``output_nr``."""
        if self.tensor_hooks is None:
            self.tensor_hooks = {}
        return self.tensor_hooks.setdefault(output_nr, HookDict())

    def retain(self, tensor: Tensor) -> None:
        """Put the gradient of output ``tensor`` into its ``.grad`` when it is known."""
        if self.retained is None:
            self.retained = {}
        self.retained[tensor._output_nr] = weakref.ref(tensor)

    def retains(self, tensor: Tensor) -> bool:
        """Whether `retain` was called for ``tensor``."""
        reference = (self.retained or {}).get(tensor._output_nr)
        return reference is not None and reference() is tensor

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """The cotangents of the inputs, in order, from those of the outputs.

        Args:
            cotangents: One per output, ``None`` where there is none: arrays or, with
                ``as_tensors``, Tensors whose computation is recorded.
            keep: Whether the node may be run again.
        """
        raise NotImplementedError(f"{self.name()} does not define its gradient")

    def __call__(self, *cotangents: Tensor) -> Any:
        """Run this node alone on the cotangents of its outputs."""
        results = self.pull(list(cotangents), as_tensors=True, keep=True)
        return results[0] if len(results) == 1 else tuple(results)


class KernelNode(Node):
    """A node whose gradient follows from its kernel."""

    __slots__ = ("arrays", "kernel", "results", "vjp")

    def __init__(
        self, kernel: Kernel, arrays: Any, edges: tuple[Edge, ...], outputs: int, vjp: Any = None
    ) -> None:
        Node.__init__(self, edges, outputs)
        self.kernel = kernel
        self.arrays = arrays
        self.vjp = vjp
        # Shapes and dtypes of the differentiable results, kept with residuals only.
        self.results: Any = None

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`."""
        arrays = self.arrays
        if arrays is None:
            raise RuntimeError(
                f"{self.name()}: cannot run backward through this graph a second time, since what "
                "it had saved was freed by the first; pass retain_graph=True to the first "
                "backward()"
            )
        edges = self.edges
        if self.vjp is not None and not as_tensors:
            pulled = kernels.pull_back_compiled(self.vjp, self._all_cotangents(cotangents))
        else:
            needs = tuple([edge is not None for edge in edges])
            given = tuple([each is not None for each in cotangents])
            gradient, saved = self.kernel.gradient(needs, given, arrays)
            known = [each for each in cotangents if each is not None]
            if as_tensors:
                pulled = self._pull_tensors(gradient, saved, known)
            else:
                pulled = gradient.forward(*saved, *known)
        if not keep and not self.kernel.linear:
            self.arrays = self.vjp = None
        if len(pulled) == len(edges):
            return pulled
        remaining = iter(pulled)
        return [None if edge is None else next(remaining) for edge in edges]

    def _all_cotangents(self, cotangents: list[Any]) -> tuple[Any, ...]:
        import jax.numpy as jnp

        return tuple(
            jnp.zeros(aval.shape, aval.dtype) if given is None else given
            for given, aval in zip(cotangents, self.results, strict=True)
            if aval is not None
        )

    def _pull_tensors(self, gradient: Kernel, saved: Any, known: list[Tensor]) -> Any:
        from flambeau.core.dispatch import run

        # Of a linear kernel's inputs only those that take no gradient are kept as arrays.
        edges = (None,) * len(saved) if self.kernel.linear else self.edges
        inputs = [_saved_tensor(each, edge) for each, edge in zip(saved, edges, strict=True)]
        return run(gradient, (*inputs, *known))


def _saved_tensor(array: Any, edge: Edge) -> Any:
    """A saved array as a tensor at its place on the tape."""
    if not hasattr(array, "dtype"):
        return array
    tensor = Tensor._wrap(array)
    if edge is not None:
        tensor._requires_grad = True
        tensor._grad_fn, tensor._output_nr = edge
    return tensor


@functools.cache
def node_class(name: str) -> type[KernelNode]:
    """The class of kernel nodes with this name."""
    return type(name, (KernelNode,), {"__slots__": (), "__module__": "flambeau.core.tape"})


class AccumulateGrad(Node):
    """The end of the tape at a leaf: adds what arrives to the leaf's ``.grad``."""

    __slots__ = ("variable",)

    def __init__(self, variable: Tensor) -> None:
        Node.__init__(self, ())
        self.variable = variable

    def name(self) -> str:
        """PyTorch's name of this node."""
        return "struct torch::autograd::AccumulateGrad"

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """Accumulate; see `Node.pull`."""
        variable, new = self.variable, cotangents[0]
        old = variable.grad
        if as_tensors:
            variable.grad = new if old is None else old + new
        elif old is None:
            variable.grad = Tensor._wrap(new)
        else:
            old._store(kernels.add(old._read(), new))
        for hook in tuple((variable._post_accumulate_hooks or {}).values()):
            hook(variable)
        return ()

    def tensor_hooks_of(self, output_nr: int) -> HookDict:
        """The hooks on the leaf itself."""
        if self.variable._hooks is None:
            self.variable._hooks = HookDict()
        return self.variable._hooks


class SpentNode(Node):
    """Stands for a history that a compiled program has already run backward through."""

    __slots__ = ()

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """Fail, as a freed graph does."""
        raise RuntimeError(
            "cannot run backward through this graph a second time: the compiled function that "
            "returned this tensor has already done so; pass retain_graph=True there"
        )


class IdentityNode(Node):
    """Passes cotangents through unchanged; module hooks hang on it."""

    __slots__ = ()

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`."""
        return cotangents


class BackwardHookFunctionBackward(IdentityNode):
    """The one node behind all inputs, or all outputs, of a module with backward hooks."""

    __slots__ = ()


def edge_of(tensor: Tensor) -> Edge:
    """Where the gradient of ``tensor`` goes: the node that made it, or its accumulator."""
    if not tensor.requires_grad:
        return None
    node = tensor._grad_fn
    if node is not None:
        return node, tensor._output_nr
    reference = tensor._accumulator
    node = None if reference is None else reference()
    if node is None:
        node = AccumulateGrad(tensor)
        # Weak, so that a leaf and its accumulator do not keep one another alive.
        tensor._accumulator = weakref.ref(node)
    return node, 0


def identity_node(tensors: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Node]:
    """Aliases of ``tensors`` whose history is one common node.

    Returns:
        The aliases, on the same Cells, and their node, whose hooks see all cotangents at once.
    """
    node = BackwardHookFunctionBackward(tuple(edge_of(each) for each in tensors), len(tensors))
    aliases = []
    for number, tensor in enumerate(tensors):
        alias = tensor._alias(type(tensor))
        alias._grad_fn, alias._output_nr, alias._requires_grad = node, number, True
        aliases.append(alias)
    return tuple(aliases), node


def is_traced(node: Node) -> bool:
    """Whether ``node`` was recorded by the active trace, if there is one."""
    trace = modes.trace
    return trace is None or node.sequence >= trace.first_sequence
