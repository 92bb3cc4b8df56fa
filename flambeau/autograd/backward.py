"""The public face of the tape: `backward` and `grad`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from flambeau.core import tape
from flambeau.core.engine import Backward
from flambeau.core.tensor import Tensor, method

__all__ = ["backward", "grad"]


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Compute the gradients of ``tensors`` and add them to the ``.grad`` of the leaves.

    Args:
        tensors: What to differentiate.
        grad_tensors: Their cotangents, of the same shapes; may be left out for tensors of one
            element, and means 1 there.
        retain_graph: Keep what the nodes saved, so that a second backward is possible; by default
            only with ``create_graph``.
        create_graph: Record the gradients' own computation, for gradients of gradients.
        inputs: Accumulate into these tensors only.

    Raises:
        RuntimeError: A tensor does not require grad; a cotangent is missing or of the wrong shape;
            or what the nodes saved has been freed by an earlier backward.
    """
    outputs = _as_tuple(tensors)
    roots = _roots(outputs, _cotangents(outputs, grad_tensors))
    if inputs is None:
        targets = None
    else:
        leaves = _as_tuple(inputs)
        if not leaves:
            raise RuntimeError("backward(): inputs must not be empty")
        targets = [_target(each, "backward") for each in leaves]
        for leaf in leaves:
            if leaf.grad_fn is not None:
                leaf.retain_grad()
    keep = create_graph if retain_graph is None else retain_graph
    run = Backward(
        _in_mode(roots, create_graph), retain_graph=keep, create_graph=create_graph,
        targets=targets, accumulate=True,
    )  # fmt: skip
    run.run()


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, without touching any ``.grad``.

    Args:
        outputs: What to differentiate.
        inputs: What to differentiate by.
        grad_outputs: The cotangents of ``outputs``; may be left out for tensors of one element.
        retain_graph: Keep what the nodes saved; by default only with ``create_graph``.
        create_graph: Record the gradients' own computation.
        allow_unused: Give ``None`` for an input that the outputs do not depend on, instead of an
            error. By default the value of ``materialize_grads``.
        is_grads_batched: ``grad_outputs`` have a leading batch dimension: one backward for each.
        materialize_grads: Give zeros instead of ``None``.

    Raises:
        RuntimeError: As for `backward`; or an input is not part of the graph.
    """
    wanted, results = _as_tuple(inputs), _as_tuple(outputs)
    if is_grads_batched:
        return _batched(
            results, wanted, grad_outputs, create_graph, allow_unused, materialize_grads
        )
    if materialize_grads and allow_unused is False:
        raise ValueError("grad(): materialize_grads needs allow_unused to be True or left out")
    targets = [_target(each, "grad") for each in wanted]
    roots = _roots(results, _cotangents(results, grad_outputs))
    keep = create_graph if retain_graph is None else retain_graph
    run = Backward(
        _in_mode(roots, create_graph), retain_graph=keep, create_graph=create_graph, targets=targets
    )
    found = [each if each is None or create_graph else Tensor._wrap(each) for each in run.run()]
    for i, each in enumerate(found):
        if each is None and materialize_grads:
            found[i] = Tensor._wrap(jnp.zeros(tuple(wanted[i].shape), wanted[i].dtype.numpy))
        elif each is None and not allow_unused:
            raise RuntimeError(
                f"grad(): input {i}, of shape {list(wanted[i].shape)}, was not used to compute the "
                "outputs; pass allow_unused=True to get None for it"
            )
    return tuple(found)


def _batched(
    outputs: tuple[Tensor, ...],
    inputs: tuple[Tensor, ...],
    grad_outputs: Any,
    create_graph: bool,
    allow_unused: bool | None,
    materialize: bool,
) -> tuple[Any, ...]:
    batches = [each.unbind(0) for each in _as_tuple(grad_outputs)]
    rows = [
        grad(outputs, inputs, cotangents, True, create_graph, allow_unused, False, materialize)
        for cotangents in zip(*batches, strict=True)
    ]
    return tuple(
        None if column[0] is None else _stack(column) for column in zip(*rows, strict=True)
    )


def _stack(tensors: tuple[Tensor, ...]) -> Tensor:
    from flambeau.ops.shape import stack

    return stack(tensors)


def _as_tuple(tensors: Any) -> tuple[Any, ...]:
    if isinstance(tensors, Tensor) or tensors is None:
        return (tensors,)
    return tuple(tensors)


def _target(tensor: Tensor, name: str) -> Any:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}(): inputs must be Tensors, got {type(tensor).__name__}")
    if not tensor.requires_grad:
        raise RuntimeError(
            f"{name}(): an input of shape {list(tensor.shape)} does not require grad"
        )
    return tape.edge_of(tensor)


def _cotangents(outputs: tuple[Tensor, ...], given: Any) -> list[Tensor]:
    cotangents = _as_tuple(given) if given is not None else (None,) * len(outputs)
    if len(cotangents) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(cotangents)} gradients for them")
    return [_cotangent(*each) for each in zip(outputs, cotangents, strict=True)]


def _cotangent(output: Tensor, given: Tensor | None) -> Tensor:
    if not isinstance(output, Tensor):
        raise TypeError(f"gradients can be computed of Tensors only, got {type(output).__name__}")
    if not output.requires_grad:
        raise RuntimeError(
            f"a tensor of shape {list(output.shape)} does not require grad and has no grad_fn: "
            "nothing that led to it was recorded"
        )
    if given is None:
        if output.numel() != 1:
            raise RuntimeError(
                "a gradient can be created implicitly only for an output of one element, this one "
                f"has shape {list(output.shape)}: pass its gradient"
            )
        return Tensor._wrap(_one(tuple(output.shape), output.dtype.numpy, output.is_meta))
    if given.shape != output.shape:
        raise RuntimeError(
            f"gradient of shape {list(given.shape)} for an output of shape {list(output.shape)}"
        )
    return given if given.dtype is output.dtype else given.to(output.dtype)


def _one(shape: tuple[int, ...], numpy_dtype: Any, on_meta: bool) -> Any:
    if on_meta:
        from flambeau.core.cell import abstract

        return abstract(shape, numpy_dtype)
    key = (shape, numpy_dtype)
    from flambeau.core.modes import modes

    if modes.trace is not None:
        return jnp.ones(shape, numpy_dtype)
    one = _ones.get(key)
    if one is None:
        one = _ones[key] = jnp.ones(shape, numpy_dtype)
    return one


_ones: dict[Any, Any] = {}


def _roots(outputs: tuple[Tensor, ...], cotangents: list[Tensor]) -> list[Any]:
    return [
        (tape.edge_of(output), cotangent)
        for output, cotangent in zip(outputs, cotangents, strict=True)
    ]


def _in_mode(roots: list[Any], create_graph: bool) -> list[Any]:
    """The roots with cotangents as the engine passes them: arrays, or Tensors to be recorded."""
    if create_graph:
        return roots
    return [(edge, cotangent._read()) for edge, cotangent in roots]


@method
def _backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    backward(self, gradient, retain_graph, create_graph, inputs)


_backward.__doc__ = "Accumulate this tensor's gradients into the leaves; see `autograd.backward`."
Tensor.backward = _backward
