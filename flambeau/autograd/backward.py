"""The public interface of the engine: `backward` and `grad`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from flambeau.autograd.graph import GradientEdge
from flambeau.core.fusion.stream import here
from flambeau.core.operators.op import function
from flambeau.core.programs.deferred import ARRAYS
from flambeau.core.support.modes import modes
from flambeau.core.support.warning import warn
from flambeau.core.tape import nodes as tape
from flambeau.core.tape.engine import Backward
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.upload import beside
from flambeau.ops.shapes.shape import stack

__all__ = ["backward", "grad"]

_Tensors = Tensor | GradientEdge | Sequence[Tensor | GradientEdge]


def backward(
    tensors: _Tensors,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensor | Sequence[Tensor | None] | None = None,
    inputs: _Tensors | None = None,
) -> None:
    """Compute the gradients of ``tensors`` and add them to the ``.grad`` of the leaves.

    Args:
        tensors: The tensors to differentiate.
        grad_tensors: Their cotangents, of the same shapes; may be left out for real tensors of one
            element, and means 1 there.
        retain_graph: Keep the saved values of the nodes, so that a second backward is possible; by
            default only with ``create_graph``.
        create_graph: Record the computation of the gradients, for gradients of gradients.
        grad_variables: ``grad_tensors`` under its older name, which warns.
        inputs: Accumulate into these tensors only; those that are no leaves retain their gradient.

    Raises:
        RuntimeError: A tensor does not require grad; a cotangent is missing or of the wrong shape;
            ``inputs`` is empty; or an earlier backward has freed the saved values of the nodes.

    >>> import flambeau
    >>> x = flambeau.tensor([1.0, 2.0], requires_grad=True)
    >>> flambeau.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    if grad_variables is not None:
        warn("backward(): grad_variables is now grad_tensors", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError("backward(): grad_tensors and grad_variables are the same argument")
        grad_tensors = grad_variables
    outputs = _as_tuple(tensors)
    targets = None if inputs is None else [_leaf(each) for each in _nonempty(inputs, "backward")]
    roots = _roots(outputs, grad_tensors)
    keep = create_graph if retain_graph is None else retain_graph
    engine = Backward(
        roots, retain_graph=keep, create_graph=create_graph, targets=targets, accumulate=True
    )
    engine.run()
    here.stream.backward_ended()


def grad(
    outputs: _Tensors,
    inputs: _Tensors,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, without touching any ``.grad``.

    Args:
        outputs: The tensors to differentiate.
        inputs: The tensors to differentiate with respect to.
        grad_outputs: The cotangents of ``outputs``; may be left out for real tensors of one
            element.
        retain_graph: Keep the saved values of the nodes; by default only with ``create_graph``.
        create_graph: Record the computation of the gradients.
        only_inputs: Ignored: other leaves never get a gradient.
        allow_unused: Give ``None`` for an input that the outputs do not depend on, instead of an
            error. By default the value of ``materialize_grads``.
        is_grads_batched: Each of ``grad_outputs`` has a leading batch dimension, and so has each
            result: the gradients for all cotangents, computed together.
        materialize_grads: Give zeros instead of ``None``.

    Raises:
        RuntimeError: As for `backward`; or an input is not part of the graph.
        ValueError: ``materialize_grads`` is set and ``allow_unused`` is ``False``.

    >>> import flambeau
    >>> x = flambeau.tensor(3.0, requires_grad=True)
    >>> (first,) = flambeau.autograd.grad(x**3, x, create_graph=True)
    >>> first.item(), flambeau.autograd.grad(first, x)[0].item()
    (27.0, 18.0)
    """
    if not only_inputs:
        warn(
            "grad(): only_inputs is deprecated and without effect; other leaves get no gradient",
            FutureWarning,
        )
    results, wanted = _as_tuple(outputs), _nonempty(inputs, "grad")
    if materialize_grads and allow_unused is False:
        raise ValueError("grad(): materialize_grads needs allow_unused to be True or left out")
    targets = [_target(each) for each in wanted]
    keep = create_graph if retain_graph is None else retain_graph
    options = {"retain_graph": keep, "create_graph": create_graph, "targets": targets}
    if is_grads_batched:
        found = _batched(results, grad_outputs, options)
    else:
        found = Backward(_roots(results, grad_outputs), **options).run()
    return tuple(
        _finished(i, source, each, allow_unused, materialize_grads)
        for i, (source, each) in enumerate(zip(wanted, found, strict=True))
    )


def _finished(
    place: int, source: Any, found: Any, allow_unused: bool | None, materialize: bool
) -> Any:
    """One result of the engine as `grad` returns it."""
    if isinstance(found, Tensor):
        return found
    if found is not None:
        return Tensor._wrap(found)
    if materialize and isinstance(source, Tensor):
        return Tensor._wrap(beside(np.zeros(source.shape, source.dtype.numpy), source._read()))
    if not allow_unused:
        raise RuntimeError(
            f"grad(): input {place}, {_described(source)}, was not used to compute the outputs; "
            "pass allow_unused=True to get None for it"
        )
    return None


def _batched(outputs: tuple[Any, ...], grad_outputs: Any, options: dict[str, Any]) -> list[Any]:
    """The gradients for every cotangent along the leading dimension of ``grad_outputs``."""
    batches = _as_tuple(grad_outputs)
    if options["create_graph"] or modes.dual is not None:
        return _batched_by_rows(outputs, batches, options)
    given = [each is not None for each in batches]
    unused: list[bool] = []

    def gradients(*arrays: Any) -> tuple[Any, ...]:
        remaining = iter(arrays)
        row = [Tensor._wrap(next(remaining)) if each else None for each in given]
        found = Backward(_roots(outputs, row), **options).run()
        unused.extend(each is None for each in found)
        return tuple(each for each in found if each is not None)

    arrays = [each._read() for each in batches if each is not None]
    if not arrays:
        raise RuntimeError("grad(): is_grads_batched needs grad_outputs with a batch dimension")
    found = iter(jax.vmap(gradients)(*arrays))
    return [None if each else next(found) for each in unused]


def _batched_by_rows(
    outputs: tuple[Any, ...], batches: tuple[Any, ...], options: dict[str, Any]
) -> list[Any]:
    # A batched trace cannot stay on the tape, so rows run one by one if they are recorded, or if
    # they may have tangents.
    rows = [*zip(*(each.unbind(0) for each in batches), strict=True)]
    found = []
    for place, row in enumerate(rows, 1):
        keep = options["retain_graph"] or place < len(rows)
        found.append(Backward(_roots(outputs, row), **{**options, "retain_graph": keep}).run())
    return [None if column[0] is None else stack(column) for column in zip(*found, strict=True)]


def _as_tuple(tensors: Any) -> tuple[Any, ...]:
    # An edge is a tuple too.
    if isinstance(tensors, Tensor | GradientEdge) or tensors is None:
        return (tensors,)
    return tuple(tensors)


def _nonempty(inputs: Any, name: str) -> tuple[Any, ...]:
    found = _as_tuple(inputs)
    if not found:
        raise RuntimeError(f"{name}(): inputs must not be empty")
    return found


def _described(source: Any) -> str:
    if isinstance(source, GradientEdge):
        return f"output {source.output_nr} of {source.node.name()}"
    return f"of shape {list(source.shape)}"


def _leaf(source: Any) -> Any:
    """The edge whose gradient `backward` accumulates."""
    if isinstance(source, Tensor):
        source.retain_grad()
    return _target(source)


def _target(source: Any) -> Any:
    if isinstance(source, GradientEdge):
        return source.node, source.output_nr
    if not isinstance(source, Tensor):
        kind = TypeError if source is None else RuntimeError
        raise kind(f"inputs must be Tensors, got {type(source).__name__}: {source!r:.80}")
    if not source.requires_grad:
        raise RuntimeError(f"an input {_described(source)} does not require grad")
    return tape.edge_of(source)


def _roots(outputs: tuple[Any, ...], grad_outputs: Any) -> list[Any]:
    """The edges where backward starts, with their cotangents."""
    given = (None,) * len(outputs) if grad_outputs is None else _as_tuple(grad_outputs)
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients for them")
    return [
        (_source(i, output), _cotangent(i, output, each))
        for i, (output, each) in enumerate(zip(outputs, given, strict=True))
    ]


def _source(place: int, output: Any) -> Any:
    if isinstance(output, GradientEdge):
        return output.node, output.output_nr
    if not isinstance(output, Tensor):
        raise TypeError(f"gradients can be computed for Tensors only, got {type(output).__name__}")
    edge = tape.edge_of(output)
    if edge is None:
        raise RuntimeError(
            f"element {place} of tensors does not require grad and has no grad_fn: no operator "
            f"that computed this tensor {_described(output)} was recorded; compute it from one "
            "that requires grad, outside of no_grad()"
        )
    return edge


def _cotangent(place: int, output: Any, given: Any) -> Tensor:
    if given is None:
        return _implicit(output)
    if not isinstance(given, Tensor):
        raise TypeError(f"gradient {place} must be a Tensor or None, got {type(given).__name__}")
    if isinstance(output, GradientEdge):
        return given
    if given.shape != output.shape:
        raise RuntimeError(
            f"gradient {place} has shape {list(given.shape)}, its tensor {list(output.shape)}"
        )
    if given.is_complex() != output.is_complex():
        raise RuntimeError(
            f"gradient {place} is {given.dtype}, its tensor {output.dtype}: "
            "they must be both real or both complex"
        )
    return given if given.dtype is output.dtype else given.to(output.dtype)


def _implicit(output: Any) -> Tensor:
    """The default cotangent of a real scalar: 1."""
    if isinstance(output, GradientEdge):
        raise RuntimeError("the gradient of an edge cannot be created implicitly: pass it")
    array = output._read()
    if array.size != 1 or output.is_complex():
        raise RuntimeError(
            "grad can be implicitly created only for scalar outputs, real and of one element; this "
            f"one is {output.dtype} of shape {list(output.shape)}: pass its gradient"
        )
    if type(array) not in ARRAYS:
        return Tensor._wrap(beside(np.ones(array.shape, array.dtype), array))
    kind = array.aval, array.sharding
    one = _ones.get(kind)
    if one is None:
        one = _ones[kind] = beside(np.ones(array.shape, array.dtype), array)
    return Tensor._wrap(one)


_ones: dict[Any, Any] = {}


def _backward_of_one(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: _Tensors | None = None,
) -> None:
    """Accumulate this tensor's gradients into the leaves; see `autograd.backward`.

    Args:
        gradient: The cotangent of this tensor; may be left out for a real tensor of one element.
        retain_graph: Keep the saved values of the nodes, so that a second backward is possible.
        create_graph: Record the computation of the gradients.
        inputs: Accumulate into these tensors only.
    """
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


_backward_of_one.__name__ = _backward_of_one.__qualname__ = "backward"
function(_backward_of_one, method=True)
