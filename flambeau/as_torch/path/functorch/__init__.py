"""`import functorch`, the predecessor of `torch.func`, under the name torch.

It has the functions of `flambeau.func`, and functional versions of modules.
"""

from __future__ import annotations

import copy
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
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional",
    "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip


class FunctionalModuleWithBuffers(nn.Module):
    """A function of the parameters and buffers of a module, which is not a submodule of this one.

    Args:
        stateless_model: The module.
        names: The names of its parameters, and of its buffers.
    """

    def __init__(self, stateless_model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        vars(self)["stateless_model"] = stateless_model
        self.names = names

    def forward(self, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
        """The module's result with these parameters and buffers."""
        values = dict(zip(self.names, (*params, *buffers), strict=True))
        return functional_call(self.stateless_model, values, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A function of the parameters of a module without buffers."""

    def forward(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        """The module's result with these parameters."""
        return super().forward(params, (), *args, **kwargs)


def make_functional(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
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
    return FunctionalModule(function.stateless_model, function.names), parameters


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
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
    buffer_names, buffers = _apart(model.named_buffers())
    if disable_autograd_tracking:
        for each in parameters:
            each.requires_grad_(False)

    function = FunctionalModuleWithBuffers(model, names + buffer_names)
    return function, parameters, buffers


def combine_state_for_ensemble(
    models: list[nn.Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
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
