"""Operators on dual tensors: the tangents of their results, and of their writes in place.

An operator's tangent is a kernel, made by `Kernel.tangent`, and runs like any other. So the tape
records tangents as it records gradients, and gradients of tangents need no code of their own.
Tangents of tangents are not propagated: the level is suspended while a tangent is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from flambeau.core.kernels.kernel import INEXACT, Kernel
from flambeau.core.support.modes import modes
from flambeau.core.tape import nodes as tape
from flambeau.core.values.dual import owner_of_tangent, suspended, tangent_of
from flambeau.core.values.tensor import Tensor
from flambeau.core.values.upload import beside

Run = Callable[..., Any]


def run(compute: Run, kernel: Kernel, inputs: tuple[Any, ...]) -> Any:
    """``compute(kernel, inputs)``, whose results are dual tensors if inputs are.

    Args:
        compute: Runs a kernel on tensors and numbers.
        kernel: The operator.
        inputs: See `flambeau.core.operators.dispatch.run`.
    """
    level = modes.dual
    with suspended():
        tangents = _tangents_of(inputs)
        results = compute(kernel, inputs)
        given = tuple([each is not None for each in tangents])
        if True in given and kernel.differentiable and not modes.inference:
            known = [each for each in tangents if each is not None]
            tangent = kernel.tangent(given)
            _attach(level, results, compute(tangent, _used(tangent, (*inputs, *known))))
            _save(level, kernel, results, tangents)
    return results


def run_with_constants(
    compute: Run, kernel: Kernel, tensors: tuple[Tensor, ...], constants: tuple[Any, ...]
) -> Any:
    """`run`, where ``compute(kernel, tensors, constants)`` takes arrays without gradient last."""
    level = modes.dual
    with suspended():
        tangents = _tangents_of(tensors)
        results = compute(kernel, tensors, constants)
        given = tuple([each is not None for each in tangents])
        if True in given and kernel.differentiable and not modes.inference:
            known = tuple([each for each in tangents if each is not None])
            tangent = kernel.tangent(given, len(constants))
            inputs = _used(tangent, (*tensors, *known), constants)
            _attach(level, results, compute(tangent, inputs, constants))
            _save(level, kernel, results, tangents)
    return results


def _tangents_of(inputs: Sequence[Any]) -> tuple[Tensor | None, ...]:
    return tuple([tangent_of(each) if isinstance(each, Tensor) else None for each in inputs])


def _used(
    kernel: Kernel, inputs: tuple[Any, ...], constants: tuple[Any, ...] = ()
) -> tuple[Any, ...]:
    """The inputs, without the history of those that the kernel's results do not depend on."""
    if not modes.grad_enabled:
        return inputs
    if not any(isinstance(each, Tensor) and each.requires_grad for each in inputs):
        return inputs
    arrays = [each._read() if isinstance(each, Tensor) else each for each in inputs]
    used = kernel.used((*arrays, *constants))
    return tuple(
        [
            each if depends or not isinstance(each, Tensor) else each.detach()
            for each, depends in zip(inputs, used, strict=False)
        ]
    )


def _attach(level: Any, results: Any, tangents: Any) -> None:
    """Give an operator's differentiable results their tangents, in order."""
    remaining = iter(tangents)
    for each in results if isinstance(results, tuple) else (results,):
        if each._cell.array.dtype in INEXACT:
            level.attach(each, next(remaining))


def _save(level: Any, kernel: Kernel, results: Any, tangents: Sequence[Tensor | None]) -> None:
    """Record the tangents of the tensors that the node of these results has saved."""
    if kernel.linear:
        return
    for each in results if isinstance(results, tuple) else (results,):
        if each._grad_fn is not None:
            level.saved[each._grad_fn] = snapshots(tangents)
            return


def snapshots(tangents: Iterable[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Copies of the present tangents, which later writes do not change."""
    return tuple(
        [
            None if each is None else tape.saved_tensor(each._read(), tape.edge_of(each))
            for each in tangents
        ]
    )


def written(
    write: Callable[[Tensor, Any, str], Any], target: Tensor, value: Any, name: str
) -> Tensor:
    """``write(target, value, name)``, and the same write on their tangents.

    Args:
        write: Overwrites a tensor in place, by a linear function of the value.
        target: The tensor to overwrite; if the value alone is a dual tensor, ``target``, or its
            base, becomes one.
        value: A tensor or number.
        name: The operator, for messages.
    """
    level = modes.dual
    with suspended():
        tangent = tangent_of(value) if isinstance(value, Tensor) else None
        write(target, value, name)
        own = tangent_of(target)
        if (own is None and tangent is None) or target.dtype.numpy not in INEXACT:
            return target
        if own is None:
            base = owner_of_tangent(target)
            level.attach(base, zeros_like(base))
            own = tangent_of(target)
            assert own is not None
        if tangent is None:
            tangent = zeros_like(value if isinstance(value, Tensor) else own)
        write(own, tangent, name)
    return target


def forget(target: Tensor) -> None:
    """Set the tangent of ``target``, if any, to zero: constants have overwritten it."""
    own = tangent_of(target)
    if own is not None:
        with suspended():
            own.zero_()


def zeros_like(tensor: Tensor) -> Tensor:
    """Zeros of the shape, dtype and device of a tensor."""
    return Tensor._wrap(beside(np.zeros(tensor.shape, tensor.dtype.numpy), tensor._read()))
