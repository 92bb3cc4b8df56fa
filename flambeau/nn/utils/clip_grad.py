"""Clipping gradients: by their total norm, or element by element."""

from __future__ import annotations

import types
from collections.abc import Iterable

from flambeau.core.devices.device import device
from flambeau.core.operators.writing import store_all
from flambeau.core.support.modes import no_grad
from flambeau.core.support.tracebacks import trimmed
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.ops.factories.from_data import tensor
from flambeau.ops.reductions.many import (
    clipped_to_norm,
    clipped_to_value,
    scaled_to_norm,
    total_norm,
)

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]

_Tensors = Tensor | Iterable[Tensor]


@trimmed
def clip_grad_norm_(
    parameters: _Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of parameters so that their total norm is at most ``max_norm``.

    The norm is that of the concatenated gradients. Norm and scaling are one operator.

    Args:
        parameters: Tensors; those without a ``.grad`` are skipped.
        max_norm: The maximum norm.
        norm_type: The order of the norm, also ``inf``.
        error_if_nonfinite: Whether to refuse a norm that is infinite or no number. The check reads
            the norm's value, so it cannot be used in a compiled function.
        foreach: Accepted for compatibility: all gradients are always scaled together.

    Returns:
        The norm before the scaling, 0-d.

    Raises:
        RuntimeError: The norm is not finite, and ``error_if_nonfinite`` is set, or a gradient holds
            integers; no gradient is changed then.

    >>> import flambeau
    >>> weight = flambeau.tensor([3.0, 4.0], requires_grad=True)
    >>> (weight * weight).sum().backward()
    >>> flambeau.nn.utils.clip_grad_norm_(weight, max_norm=1.0)
    tensor(10.)
    >>> weight.grad
    tensor([0.6000, 0.8000])
    """
    parameters = _listed(parameters, tell=True)
    grads = _grads(parameters)
    max_norm, order = float(max_norm), float(norm_type)
    with no_grad():
        if not grads or len({each.device for each in grads}) > 1:
            total = get_total_norm(grads, order, error_if_nonfinite)
            clip_grads_with_norm_(parameters, max_norm, total)
            return total
        total, *clipped = clipped_to_norm(grads, max_norm, order)
        if error_if_nonfinite:
            _check_finite(total, order)
        _store(grads, clipped)
    return total


def clip_grad_norm(
    parameters: _Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """`clip_grad_norm_` under its older name, which is deprecated."""
    warn("clip_grad_norm() is deprecated, use clip_grad_norm_()", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def get_total_norm(
    tensors: _Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of the concatenated tensors, 0-d.

    Args:
        tensors: The tensors, such as gradients.
        norm_type: The order of the norm, also ``inf``.
        error_if_nonfinite: Whether to refuse a norm that is infinite or no number.
        foreach: Accepted for compatibility.

    Raises:
        RuntimeError: The norm is not finite, and ``error_if_nonfinite`` is set, or a tensor holds
            integers.
    """
    listed = _listed(tensors)
    order = float(norm_type)
    with no_grad():
        norms = [total_norm(group, order) for group in _by_device(listed)]
        if not norms:
            return tensor(0.0)
        total = norms[0]
        if len(norms) > 1:
            total = total_norm([each.to(listed[0].device) for each in norms], order)
        if error_if_nonfinite:
            _check_finite(total, order)
    return total


def clip_grads_with_norm_(
    parameters: _Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients of parameters by ``max_norm / total_norm``, if that is less than 1.

    Args:
        parameters: Tensors; those without a ``.grad`` are skipped.
        max_norm: The maximum norm.
        total_norm: The total norm of the gradients, 0-d; see `get_total_norm`.
        foreach: Accepted for compatibility.

    Raises:
        TypeError: ``total_norm`` is not a Tensor.
    """
    if not isinstance(total_norm, Tensor):
        raise TypeError(
            f"clip_grads_with_norm_() takes the norm as a Tensor, got {type(total_norm).__name__}"
        )
    with no_grad():
        for group in _by_device(_grads(_listed(parameters))):
            total = total_norm.to(group[0].device)
            _store(group, scaled_to_norm(group, total, float(max_norm)))


@trimmed
def clip_grad_value_(parameters: _Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp the gradients of parameters to ``[-clip_value, clip_value]``.

    Args:
        parameters: Tensors; those without a ``.grad`` are skipped.
        clip_value: The maximum magnitude.
        foreach: Accepted for compatibility.

    Raises:
        NotImplementedError: A gradient is not of real floating point numbers.
    """
    with no_grad():
        for group in _by_device(_grads(_listed(parameters))):
            _store(group, clipped_to_value(group, float(clip_value)))


def _listed(tensors: _Tensors, tell: bool = False) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        return [tensors]
    listed = list(tensors)
    if tell and not listed and isinstance(tensors, types.GeneratorType):
        warn(
            "clip_grad_norm_() got an empty generator of parameters, perhaps one that has been "
            "used up: no gradient is clipped",
        )
    return listed


def _grads(parameters: list[Tensor]) -> list[Tensor]:
    return [each.grad for each in parameters if each.grad is not None]


def _by_device(tensors: list[Tensor]) -> list[list[Tensor]]:
    groups: dict[device, list[Tensor]] = {}
    for each in tensors:
        groups.setdefault(each.device, []).append(each)
    return list(groups.values())


def _store(targets: list[Tensor], results: Iterable[Tensor]) -> None:
    store_all(targets, [each._read() for each in results])


def _check_finite(total: Tensor, order: float) -> None:
    if not bool(total.isfinite()):
        raise RuntimeError(
            f"the norm of order {order} of the gradients is {total.item()}, so they cannot be "
            "clipped; with error_if_nonfinite=False they are scaled by it all the same"
        )
