"""A transformation of a function as one operator on the tape.

A transformation computes arrays from arrays. If its arguments, or tensors that its function
captures, require gradients, it is recorded as one node whose gradient is JAX's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from flambeau.core.kernels.kernel import INEXACT, Kernel, pull_back
from flambeau.core.support.modes import enable_grad, modes, no_grad
from flambeau.core.tape import nodes as tape
from flambeau.core.tape.node import Edge, Node
from flambeau.core.tape.transform import Capture, lifted
from flambeau.core.values.cell import is_abstract
from flambeau.core.values.dual import suspended, tangent_of
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.upload import beside
from flambeau.random.drawing import Descent

Arrays = tuple[Any, ...]


def run(
    compute: Callable[[Sequence[Any], Capture], Arrays],
    tensors: Sequence[Tensor],
    drawn: list[Any] | None = None,
) -> Any:
    """Compute a transformation on tensors, recording it if a gradient is wanted.

    Args:
        compute: Takes the tensors' arrays, and a `Capture` that it must enter around the user's
            function; returns a tuple of arrays. It runs a second time if gradients are needed.
        tensors: The arguments.
        drawn: The random numbers to draw in the function; by default new ones.

    Returns:
        A list of Tensors.

    Raises:
        RuntimeError: A tensor is on the meta device.
    """
    tensors = lifted(tensors)
    arrays = [each._read() for each in tensors]
    if any(map(is_abstract, arrays)):
        raise RuntimeError(
            "vmap() and jvp() compute with values, which tensors on the meta device do not have"
        )
    wanted = [place for place, each in enumerate(tensors) if each.requires_grad]
    capture = Capture(drawn=drawn)
    capture.differentiated = True if modes.grad_enabled and wanted else None
    results = compute(arrays, capture)
    if modes.dual is not None:
        duals = [place for place, each in enumerate(tensors) if tangent_of(each) is not None]
        wanted = sorted({*wanted, *duals})
    elif not modes.grad_enabled:
        wanted = []
    if not (wanted or capture.tensors):
        return [Tensor._wrap(each) for each in results]

    # The captured tensors depend on the mode.
    mode = enable_grad if modes.grad_enabled else no_grad

    def again(*values: Any) -> Arrays:
        given = list(arrays)
        for place, value in zip(wanted, values, strict=False):
            given[place] = value
        with mode():
            return compute(given, Capture(values[len(wanted) :], capture.drawn))

    return record(again, [*(tensors[place] for place in wanted), *capture.tensors])


def record(function: Callable[..., Arrays], sources: Sequence[Tensor]) -> list[Tensor]:
    """Compute a function of arrays on tensors, as one node of the tape.

    Args:
        function: A function of one array per source that returns a tuple of arrays.
        sources: Tensors, which get gradients if they require grad. If some of them are dual
            tensors, the results are too.
    """
    level = modes.dual
    if level is None:
        return _recorded(function, sources)
    with suspended():
        tangents = [tangent_of(each) for each in sources]
        outputs = _recorded(function, sources)
        given = tuple([each is not None for each in tangents])
        if True in given:
            pushed = Kernel(function, "transform", "TransformBackward0").tangent(given).function
            known = [each for each in tangents if each is not None]
            remaining = iter(_recorded(pushed, [*sources, *known]))
            for each in outputs:
                if each._cell.array.dtype in INEXACT:
                    level.attach(each, next(remaining))
    return outputs


def _recorded(function: Callable[..., Arrays], sources: Sequence[Tensor]) -> list[Tensor]:
    sources = lifted(sources)
    values = tuple([each._read() for each in sources])
    descent = Descent()

    def split(*values: Any) -> tuple[Arrays, Arrays]:
        with descent:
            results = function(*values)
        return tuple([each for each in results if each.dtype in INEXACT]), results

    edges = tuple([tape.edge_of(each) for each in sources])
    if not modes.grad_enabled or all(edge is None for edge in edges):
        return [Tensor._wrap(each) for each in split(*values)[1]]
    _, vjp, results = jax.vjp(split, *values, has_aux=True)
    outputs = [Tensor._wrap(each) for each in results]
    node = TransformBackward(edges, function, values, vjp, results)
    for number, output in enumerate(outputs):
        if results[number].dtype in INEXACT:
            output._grad_fn, output._output_nr, output._requires_grad = node, number, True
    return outputs


class TransformBackward(Node):
    """The node of a transformation.

    Attributes:
        function: See `record`.
        values: The values that it was computed from.
        vjp: JAX's vjp function of its inexact results.
        avals: For each result its shape and dtype, ``None`` if it takes no gradient.
    """

    __slots__ = ("avals", "function", "values", "vjp")

    function: Any
    vjp: Any

    def __init__(
        self,
        edges: tuple[Edge, ...],
        function: Callable[..., Arrays],
        values: Arrays,
        vjp: Any,
        results: Arrays,
    ) -> None:
        super().__init__(edges, len(results))
        self.function = function
        self.values: Arrays = values
        self.vjp = vjp
        self.avals: list[Any | None] = [
            jax.ShapeDtypeStruct(each.shape, each.dtype) if each.dtype in INEXACT else None
            for each in results
        ]

    def pull(self, cotangents: list[Any], as_tensors: bool, keep: bool) -> Any:
        """See `Node.pull`."""
        if self.vjp is None:
            raise tape.freed_error(self)
        if all(each is None for each in cotangents):
            return [None] * len(self.edges)
        full = [
            self._zeros(aval, as_tensors) if given is None else given
            for given, aval in zip(cotangents, self.avals, strict=True)
            if aval is not None
        ]
        if as_tensors:
            pulled: Any = self._pull_tensors(full)
        else:
            pulled = pull_back(self.vjp, tuple(full))
        if not keep:
            self.vjp = None
        return pulled

    def _pull_tensors(self, cotangents: list[Tensor]) -> list[Tensor]:
        function, count = self.function, len(self.values)

        def gradient(*both: Any) -> Arrays:
            descent = Descent()

            def inexact(*values: Any) -> Arrays:
                with descent:
                    return tuple([each for each in function(*values) if each.dtype in INEXACT])

            _, vjp = jax.vjp(inexact, *both[:count])
            return pull_back(vjp, both[count:])

        inputs = [
            tape.saved_tensor(value, edge)
            for value, edge in zip(self.values, self.edges, strict=True)
        ]
        return record(gradient, [*inputs, *cotangents])

    def _zeros(self, aval: Any, as_tensor: bool) -> Any:
        zeros = beside(np.zeros(aval.shape, aval.dtype), self.values[0])
        return Tensor._wrap(zeros) if as_tensor else zeros
