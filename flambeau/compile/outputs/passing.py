"""Gradients that enter a compiled program from outside.

If a function returns tensors that require grad, its trace continues backwards over the tape from
these results, with placeholders for the cotangents. So gradients follow the tape as they do
eagerly: detached tensors stay detached, and custom functions and hooks run. The trace ends at
tensors from outside, and backward continues on the tape outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from flambeau.compile.guarding.where import Argument, Created, Where
from flambeau.compile.outputs.split import Split, placeholder
from flambeau.core.kernels.kernel import Kernel
from flambeau.core.kernels.lazy_cotangent import value_of
from flambeau.core.programs.compiled import compiled
from flambeau.core.tape import nodes as tape
from flambeau.core.tape.engine import Backward
from flambeau.core.tape.node import Edge, Node
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.trace import Handle
from flambeau.core.values.upload import beside

Root = tuple[tuple[Node, int], Any]


class Arrival(NamedTuple):
    """A gradient that leaves the program.

    Attributes:
        tensor: The tensor that gets the gradient.
        gradient: The tracer of the gradient.
        is_leaf: Whether the tensor is a leaf.
    """

    tensor: Tensor
    gradient: Any
    is_leaf: bool


class Passing:
    """The gradients that pass through a program, as its trace has found them.

    Attributes:
        roots: The results that take cotangents.
        count: The number of the program's outputs before the gradients.
        arrivals: The gradients that leave the program.
        new_leaves: Tensors that the function detaches and makes leaves that require grad, with
            their positions among the results.
        refusal: The error that prevents gradients, if any does.
    """

    def __init__(self) -> None:
        self.roots: list[Root] = []
        self.count = 0
        self.arrivals: list[Arrival] = []
        self.new_leaves: dict[Tensor, int] = {}
        self.refusal: Exception | None = None


class _ToTheEdge(Backward):
    """A backward that stops, without hooks, at nodes from before the trace and at leaves."""

    def __init__(self, roots: Sequence[Root], first_sequence: int) -> None:
        super().__init__(roots, retain_graph=True, create_graph=False)
        self.first_sequence = first_sequence

    def _run_node(self, node: Node) -> Any:
        if not node.accumulates and node.sequence >= self.first_sequence:
            return super()._run_node(node)
        # The tape outside may lead here again, so more of the gradient may arrive.
        return None

    def arrivals(self) -> dict[Node, list[Any]]:
        """The gradients that have arrived, by node and output."""
        self.run()
        return {node: [value_of(each) for each in buffer] for node, buffer in self.buffers.items()}


def trace_backward(
    roots: Sequence[Root],
    first_sequence: int,
    before: dict[Tensor, Handle],
) -> list[Arrival]:
    """Continue a trace backwards from its results.

    Args:
        roots: The edges and arrays of the results that require grad.
        first_sequence: Nodes numbered below this are outside.
        before: The tensors from outside, with their former state.

    Returns:
        The gradients of tensors from outside and of leaves.

    Raises:
        RuntimeError: The tape raises as it would eagerly.
    """
    starts = [(edge, Tensor._wrap(placeholder(i, like))) for i, (edge, like) in enumerate(roots)]
    arrived = _ToTheEdge(starts, first_sequence).arrivals()
    owners: dict[Any, Tensor] = {}
    for tensor, handle in before.items():
        node, number = handle.grad_fn, handle.output_nr
        if node is not None:
            owners.setdefault((node, number), tensor)
    arrivals = []
    for node, gradients in arrived.items():
        for number, gradient in enumerate(gradients):
            if gradient is not None:
                leaf = node.variable if isinstance(node, tape.AccumulateGrad) else None
                owner = owners.get((node, number)) if leaf is None else leaf
                if owner is None:
                    raise RuntimeError(
                        f"the gradient of a compiled function reached {node.name()}, which was "
                        "recorded before the call, past the tensors that it takes from outside; "
                        "pass such tensors as arguments"
                    )
                arrivals.append(Arrival(owner, gradient, leaf is not None))
    return arrivals


class Source(NamedTuple):
    """The place of a tensor that takes a gradient.

    Attributes:
        where: The place before the call; for a leaf that the function creates, its result.
        input: The number of the program's input with its array, or -1.
    """

    where: Where
    input: int = -1


class PassedGradients:
    """The gradients that pass through a program.

    Args:
        split: The forward and the backward function.
        roots: The shape and dtype of each result that takes a cotangent.
        sources: The place of the tensor that takes each gradient.
        refusal: The error that prevents gradients, if any does.
        compile: Gives the program of a function, like `compiled`.
    """

    def __init__(
        self,
        split: Split,
        roots: Sequence[Any],
        sources: Sequence[Source],
        refusal: Exception | None,
        compile: Callable[..., Callable[..., Any]] = compiled,
    ) -> None:
        self.roots = roots
        self.sources = sources
        self.refusal = refusal
        #: Whether leaves that the function creates and returns take gradients.
        self.leads_to_results = refusal is None and any(
            isinstance(each.where, Created) for each in sources
        )
        self.forward = compile(split.forward, "compiled_forward", at_once=True)
        self.backward = compile(split.backward, "compiled_backward", at_once=True)
        self.kernel = Kernel(
            _gradients_of(split, len(roots)), "compiled_function_backward",
            "CompiledFunctionBackwardBackward0",
        )  # fmt: skip

    def node(self, arrays: list[Any], residuals: Any, leaves: Sequence[Any]) -> Node:
        """The node of a call; called before the call writes anything.

        Args:
            arrays: The inputs of the program.
            residuals: The residuals of its forward.
            leaves: The leaves of the arguments.
        """
        if self.refusal is not None:
            return RefusedBackward(self.refusal, len(self.roots))
        edges = [
            None if isinstance(where, Created) else tape.edge_of(where.get(leaves))
            for where, _ in self.sources
        ]
        return CompiledFunctionBackward(self, tuple(arrays), residuals, tuple(edges))


def _gradients_of(split: Split, count: int) -> Callable[..., Any]:
    def gradients(*arrays: Any) -> Any:
        return split.gradients(arrays[:-count], arrays[-count:])

    return gradients


class CompiledFunctionBackward(Node):
    """The node of all results of one call of a compiled function."""

    __slots__ = ("arrays", "gradients", "residuals")

    def __init__(
        self,
        gradients: PassedGradients,
        arrays: tuple[Any, ...],
        residuals: Any,
        edges: tuple[Edge, ...],
    ) -> None:
        super().__init__(edges, len(gradients.roots))
        self.gradients = gradients
        self.arrays: Any = arrays
        self.residuals = residuals

    def connect(self, results: Sequence[Any]) -> None:
        """Connect the node to the leaves that the function has created and returned."""
        self.edges = tuple(
            tape.edge_of(source.where.get(results)) if isinstance(source.where, Created) else edge
            for edge, source in zip(self.edges, self.gradients.sources, strict=True)
        )

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        if self.arrays is None:
            raise tape.freed_error(self)
        one = next((each for each in cotangents if each is not None), None)
        if one is None:
            return (None,) * len(self.edges)
        array = one._read() if as_tensors else one
        full = [
            self._zeros(root, array, as_tensors) if each is None else each
            for each, root in zip(cotangents, self.gradients.roots, strict=True)
        ]
        if as_tensors:
            pulled = self.gradients.kernel.run((*self._inputs(), *full))
        else:
            pulled = self.gradients.backward(self.arrays, self.residuals, tuple(full))
        if not keep:
            self.arrays = self.residuals = None
        return pulled

    @staticmethod
    def _zeros(root: Any, like: Any, as_tensors: bool) -> Any:
        zeros = beside(np.zeros(root.shape, root.dtype), like)
        return Tensor._wrap(zeros) if as_tensors else zeros

    def _inputs(self) -> list[Any]:
        """The inputs as tensors, each with its edge."""
        edges: list[Edge] = [None] * len(self.arrays)
        for edge, source in zip(self.edges, self.gradients.sources, strict=True):
            if source.input < 0:
                kind, advice = "uses a view from outside", "pass the view as an argument"
                if isinstance(source.where, Argument):
                    kind = "writes to an argument of which another one is a view"
                    advice = "pass the whole tensor, and take the views inside"
                raise RuntimeError(
                    f"{self.name()}: gradients of gradients do not pass through a compiled "
                    f"function that {kind}; {advice}"
                )
            edges[source.input] = edge
        return [*map(tape.saved_tensor, self.arrays, edges)]


class RefusedBackward(Node):
    """The node of results whose gradient could not be traced."""

    __slots__ = ("error",)

    def __init__(self, error: Exception, outputs: int) -> None:
        super().__init__((), outputs)
        self.error = error

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """Raise the error of the trace."""
        raise self.error
