"""Gradients that come to a compiled program from outside it.

Where a function returns tensors that still require grad, its trace goes on: backwards over the tape
from these results, with placeholders for the cotangents. So what counts is the tape, as it does
eagerly: what was detached stays detached, custom functions and hooks run. The trace ends where
tensors come in from outside, and the tape outside goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from flambeau.compile.split import Split, placeholder
from flambeau.compile.where import Argument, Made, Where
from flambeau.core import tape
from flambeau.core.engine import Backward
from flambeau.core.kernel import Kernel
from flambeau.core.lazy_cotangent import value_of
from flambeau.core.node import Edge, Node
from flambeau.core.programs import compiled
from flambeau.core.tensor import Tensor
from flambeau.core.trace import Handle
from flambeau.core.upload import beside

Root = tuple[tuple[Node, int], Any]


class Arrival(NamedTuple):
    """A gradient that leaves the program.

    Attributes:
        tensor: Whose it is: a tensor from outside, or one that the trace has made or was given.
        gradient: Its tracer.
        is_leaf: Whether it is for the tensor as a leaf, and not as a result of something else.
    """

    tensor: Tensor
    gradient: Any
    is_leaf: bool


class Passing:
    """The gradients that pass through a program, as its trace has found them.

    Attributes:
        roots: The results that need cotangents.
        count: How many of the program's outputs are no gradients.
        arrivals: Where the gradients go.
        new_leaves: Tensors that the function takes off the tape and then requires gradients of,
            with their positions among the results.
        refusal: Why there are no gradients, if there are none.
    """

    def __init__(self) -> None:
        self.roots: list[Root] = []
        self.count = 0
        self.arrivals: list[Arrival] = []
        self.new_leaves: dict[Tensor, int] = {}
        self.refusal: Exception | None = None


class _ToTheEdge(Backward):
    """A run that stops, without hooks, at whatever was there before the trace, and at leaves."""

    def __init__(self, roots: Sequence[Root], first_sequence: int) -> None:
        super().__init__(roots, retain_graph=True, create_graph=False)
        self.first_sequence = first_sequence

    def _run_node(self, node: Node) -> Any:
        if not node.accumulates and node.sequence >= self.first_sequence:
            return super()._run_node(node)
        # The tape outside may lead here again, so this is not the place to wait for all of it.
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
    """Go on with a trace from its results backwards.

    Args:
        roots: The edges and arrays of the results that require grad.
        first_sequence: Nodes numbered below this are outside.
        before: The tensors that came in from outside, as they were.

    Returns:
        What arrives at tensors from outside, and at leaves.

    Raises:
        RuntimeError: The tape refuses, as it would eagerly.
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
    """Where a tensor that takes a gradient is found at each call.

    Attributes:
        where: Where it is before the call, or which result it is, a leaf that the function makes.
        input: The number of the program's input that is its array, or -1.
    """

    where: Where
    input: int = -1


class PassedGradients:
    """The gradients that pass through a program.

    Args:
        split: The forward and the backward function.
        roots: For each result that takes a cotangent, its shape and dtype.
        sources: For each gradient, whose it is.
        refusal: Why there are no gradients, if there are none.
    """

    def __init__(
        self,
        split: Split,
        roots: Sequence[Any],
        sources: Sequence[Source],
        refusal: Exception | None,
    ) -> None:
        self.roots = roots
        self.sources = sources
        self.refusal = refusal
        #: Whether gradients also go to leaves that the function makes and returns.
        self.leads_to_results = refusal is None and any(
            isinstance(each.where, Made) for each in sources
        )
        self.forward = compiled(split.forward, "compiled_forward")
        self.backward = compiled(split.backward, "compiled_backward")
        self.kernel = Kernel(
            _gradients_of(split, len(roots)), "compiled_function_backward",
            "CompiledFunctionBackwardBackward0",
        )  # fmt: skip

    def node(self, arrays: list[Any], residuals: Any, leaves: Sequence[Any]) -> Node:
        """The node of a call; to be made before the call writes anything.

        Args:
            arrays: The inputs of the program.
            residuals: What its forward kept.
            leaves: The leaves of the arguments.
        """
        if self.refusal is not None:
            return RefusedBackward(self.refusal, len(self.roots))
        edges = [
            None if isinstance(where, Made) else tape.edge_of(where.get(leaves))
            for where, _ in self.sources
        ]
        return CompiledFunctionBackward(self, tuple(arrays), residuals, tuple(edges))


def _gradients_of(split: Split, count: int) -> Callable[..., Any]:
    def gradients(*arrays: Any) -> Any:
        return split.gradients(arrays[:-count], arrays[-count:])

    return gradients


class CompiledFunctionBackward(Node):
    """The node of all that one call of a compiled function returned."""

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
        """Lead the tape on to the leaves that the function has made and returned."""
        self.edges = tuple(
            tape.edge_of(source.where.get(results)) if isinstance(source.where, Made) else edge
            for edge, source in zip(self.edges, self.gradients.sources, strict=True)
        )

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`."""
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
        """The inputs as tensors at their places on the tape."""
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
        """Raise the error that the trace met."""
        raise self.error
