"""The forward mode of a custom Function: calls its ``jvp`` and checks the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flambeau.autograd.function_context import FunctionCtx
from flambeau.autograd.function_node import is_overridden
from flambeau.core.kernels.kernel import INEXACT
from flambeau.core.support.modes import modes
from flambeau.core.tape.forward import snapshots, zeros_like
from flambeau.core.values.dual import suspended, tangent_of
from flambeau.core.values.tensor import Tensor


def defines_jvp(cls: Any) -> bool:
    """Whether a Function defines a forward-mode derivative."""
    return is_overridden(cls, "jvp")


class Marks(NamedTuple):
    """The marks that forward set on its context.

    Attributes:
        saved: The tensors to save for backward.
        dirty: The inputs that forward wrote in place.
        non_differentiable: The outputs without gradient.
    """

    saved: tuple[Tensor | None, ...]
    dirty: tuple[Tensor, ...]
    non_differentiable: tuple[Tensor, ...]

    @staticmethod
    def of(ctx: FunctionCtx) -> Marks:
        """The present marks of a context."""
        return Marks(ctx.to_save, ctx.dirty_tensors, ctx.non_differentiable)


def push_tangents(
    cls: Any,
    ctx: FunctionCtx,
    marks: Marks,
    args: Sequence[Any],
    results: Sequence[Any],
    outputs: Sequence[Any],
) -> None:
    """Give the outputs of one call tangents if an argument is a dual tensor.

    Args:
        cls: The Function.
        ctx: The context that forward filled.
        marks: The marks that forward set.
        args: The arguments of forward.
        results: The results of forward.
        outputs: The tensor that the call returns for each result.

    Raises:
        NotImplementedError: The Function defines no ``jvp``.
        RuntimeError: The result of ``jvp`` does not fit the outputs.
    """
    level = modes.dual
    with suspended():
        given = [tangent_of(each) if isinstance(each, Tensor) else None for each in args]
        if all(each is None for each in given):
            return
        if not defines_jvp(cls):
            raise missing_jvp(cls)
        if ctx.materialize_grads:
            given = [
                zeros_like(arg) if tangent is None and _takes_tangent(arg) else tangent
                for arg, tangent in zip(args, given, strict=True)
            ]
        taking = [
            output
            if _takes_tangent(result) and not _contains(marks.non_differentiable, result)
            else None
            for result, output in zip(results, outputs, strict=True)
        ]
        tangents = call_jvp(cls, ctx, given, taking)
    for output, tangent in zip(outputs, tangents, strict=True):
        if tangent is None:
            continue
        if _contains(marks.dirty, output):
            if tangent_of(output) is not tangent:
                raise RuntimeError(
                    f"{cls.__name__}: forward writes an input in place, and jvp does not write its "
                    "tangent in place; do the same to both, and return both"
                )
        elif output._is_view() and not _shares(tangent, given):
            raise RuntimeError(
                f"{cls.__name__}: forward returns a view of an input, or the input as it is, and "
                "jvp does not return a view of the tangent; do the same to both"
            )
        else:
            level.attach(output, tangent)
    _save(level, marks.saved, results, outputs)


def _save(level: Any, saved: Sequence[Any], results: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Record the tangents of the tensors that the call saved for backward."""
    node = next((e._grad_fn for e in outputs if isinstance(e, Tensor) and e._grad_fn), None)
    if node is None:
        return
    returned = {id(a): b for a, b in zip(results, outputs, strict=True)}
    tensors = [returned.get(id(each), each) for each in saved]
    level.saved[node] = snapshots(None if each is None else tangent_of(each) for each in tensors)


def _contains(tensors: Sequence[Any], tensor: Any) -> bool:
    return any(each is tensor for each in tensors)


def _takes_tangent(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype.numpy in INEXACT


def _shares(tangent: Tensor, given: Sequence[Tensor | None]) -> bool:
    return any(each is not None and tangent._cell is each._cell for each in given)


def missing_jvp(cls: Any) -> NotImplementedError:
    """The error for forward mode through a Function that does not define ``jvp``."""
    return NotImplementedError(
        f"forward mode (forward_ad, func.jvp, jacfwd) has reached {cls.__name__}, which does not "
        "implement the static method jvp; define it, or differentiate backward"
    )


def call_jvp(
    cls: Any, ctx: FunctionCtx, given: Sequence[Any], outputs: Sequence[Any]
) -> list[Tensor | None]:
    """The tangents of the outputs of one call.

    Args:
        cls: The Function.
        ctx: The call's context.
        given: For each argument its tangent, or ``None``.
        outputs: The outputs of the call; ``None`` for an output that takes no tangent.

    Raises:
        RuntimeError: Their number, or their shapes, do not fit the outputs; one is not a Tensor, or
            belongs to an output without gradient.
    """
    with ctx._for_jvp():
        returned = cls.jvp(ctx, *given)
    tangents = returned if isinstance(returned, tuple) else (returned,)
    if len(tangents) != len(outputs):
        raise RuntimeError(
            f"{cls.__name__}: jvp returned an invalid number of tangents, {len(tangents)} for "
            f"{len(outputs)} outputs"
        )
    return [
        _checked(cls.__name__, place, tangent, output)
        for place, (tangent, output) in enumerate(zip(tangents, outputs, strict=True))
    ]


def _checked(name: str, place: int, tangent: Any, output: Any) -> Tensor | None:
    if tangent is None:
        return None
    if not isinstance(tangent, Tensor):
        raise RuntimeError(
            f"{name}: jvp must return a Tensor or None as tangent {place}, got "
            f"{type(tangent).__name__}"
        )
    if output is None:
        raise RuntimeError(
            f"{name}: jvp returned a tangent at position {place}, where forward gave no "
            "differentiable Tensor; return None there"
        )
    if tangent.shape != output.shape:
        raise RuntimeError(
            f"{name}: jvp returned tangent {place} of size {list(tangent.shape)} for an output of "
            f"size {list(output.shape)}"
        )
    return tangent if tangent.dtype is output.dtype else tangent.to(output.dtype)
