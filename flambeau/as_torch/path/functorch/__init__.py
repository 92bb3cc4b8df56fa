"""`import functorch`, the predecessor of `torch.func`, under the name torch.

It has the functions of `flambeau.func`, and functional versions of modules.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from flambeau import Tensor, nn
from flambeau.as_torch.version import __version__ as __version__
from flambeau.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

__all__ = [
    "combine_state_for_ensemble", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip


def make_functional(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[Callable[..., Any], tuple[Tensor, ...]]:
    """Convert a module to a function of its parameters.

    Args:
        model: A module without buffers.
        disable_autograd_tracking: Return parameters that do not require gradients.

    Returns:
        A function ``function(parameters, *args, **kwargs)``, and copies of the parameters.

    Raises:
        RuntimeError: The module has buffers.
    """
    if [*model.buffers()]:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    function, parameters, _ = make_functional_with_buffers(model, disable_autograd_tracking)

    def of_parameters(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        return function(parameters, (), *args, **kwargs)

    return of_parameters, parameters


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[Callable[..., Any], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Convert a module to a function of its parameters and buffers.

    Args:
        model: A module.
        disable_autograd_tracking: Return parameters that do not require gradients.

    Returns:
        A function ``function(parameters, buffers, *args, **kwargs)``, copies of the parameters and
        copies of the buffers.
    """
    model = copy.deepcopy(model)
    names, parameters = _apart(model.named_parameters())
    places, buffers = _apart(model.named_buffers())
    if disable_autograd_tracking:
        for each in parameters:
            each.requires_grad_(False)

    def function(parameters: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        values = dict(zip((*names, *places), (*parameters, *buffers), strict=True))
        return functional_call(model, values, args, kwargs)

    return function, parameters, buffers


def combine_state_for_ensemble(
    models: list[nn.Module],
) -> tuple[Callable[..., Any], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Convert modules of one class to a function, with parameters and buffers stacked.

    Args:
        models: Modules of one class, all in training mode or none.

    Returns:
        As `make_functional_with_buffers`, with a leading dimension to map over with `vmap`.

    Raises:
        RuntimeError: There are no modules, or they differ in class or mode.
    """
    parameters, buffers = stack_module_state(models)
    function = make_functional_with_buffers(models[0])[0]
    return function, tuple(parameters.values()), tuple(buffers.values())


def _apart(named: Any) -> tuple[tuple[str, ...], tuple[Tensor, ...]]:
    members = dict(named)
    return tuple(members), tuple(members.values())
