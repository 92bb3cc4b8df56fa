"""Pruning: parameters with some elements masked to zero.

See https://docs.pytorch.org/docs/2.13/nn.html#utility-functions. A pruned parameter ``weight`` is
stored as ``weight_orig``, its mask is the buffer ``weight_mask``, and ``weight`` is their product,
computed before each call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module
from flambeau.nn.utils.convert_parameters import parameters_to_vector
from flambeau.nn.utils.pruning_method import BasePruningMethod, PruningContainer
from flambeau.nn.utils.pruning_rules import (
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    RandomStructured,
    RandomUnstructured,
)
from flambeau.ops.factories.creation import ones_like

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


def identity(module: Module, name: str) -> Module:
    """Prune a parameter with a mask of ones, which prunes nothing; return ``module``."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prune elements at random.

    Args:
        module: The module.
        name: The name of its parameter.
        amount: A fraction of the elements from 0.0 to 1.0, or an integer number.

    Returns:
        ``module``.

    Raises:
        TypeError: ``amount`` is not a number.
        ValueError: It is out of range.

    >>> import flambeau
    >>> from flambeau import nn
    >>> layer = nn.utils.prune.random_unstructured(nn.Linear(2, 3), name="weight", amount=1)
    >>> int(flambeau.sum(layer.weight_mask == 0))
    1
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: float, importance_scores: Tensor | None = None
) -> Module:
    """Prune the elements with the least magnitude.

    Args:
        module: The module.
        name: The name of its parameter.
        amount: See `random_unstructured`, also for errors.
        importance_scores: Numbers in the shape of the parameter whose magnitude is used instead.

    Returns:
        ``module``.
    """
    L1Unstructured.apply(module, name, amount, importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prune whole slices along a dimension at random.

    Args:
        module: The module.
        name: The name of its parameter, of 2 dimensions at least.
        amount: See `random_unstructured`, of the slices.
        dim: The dimension.

    Returns:
        ``module``.

    Raises:
        ValueError: The parameter has fewer dimensions, or ``amount`` is out of range.
        IndexError: There is no such dimension.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module,
    name: str,
    amount: float,
    n: float | str,
    dim: int,
    importance_scores: Tensor | None = None,
) -> Module:
    """Prune whole slices along a dimension with the least norm.

    Args:
        module: The module.
        name: The name of its parameter, of 2 dimensions at least.
        amount: See `random_unstructured`, of the slices.
        n: The order of the norm.
        dim: The dimension.
        importance_scores: Numbers in the shape of the parameter whose norm is used instead.

    Returns:
        ``module``.

    Raises:
        ValueError: The parameter has fewer dimensions, or ``amount`` is out of range.
        IndexError: There is no such dimension.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters together, as one concatenated vector.

    Args:
        parameters: Modules and the names of their parameters.
        pruning_method: A method for single elements, such as `L1Unstructured`.
        importance_scores: Tensors that the method compares instead of the parameters, for any of
            them.
        **kwargs: The arguments of the method, such as ``amount``.

    Raises:
        TypeError: The arguments have other types, or the method is not for single elements.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.nn.utils import prune
    >>> net = nn.Sequential(nn.Linear(10, 4), nn.Linear(4, 1))
    >>> parameters = [(net[0], "weight"), (net[1], "weight")]
    >>> prune.global_unstructured(parameters, prune.L1Unstructured, amount=10)
    >>> int(sum((each.weight_mask == 0).sum() for each in net))
    10
    """
    if not isinstance(parameters, Iterable):
        raise TypeError(
            "global_unstructured() takes a list of pairs (module, name), got "
            f"{type(parameters).__name__}"
        )
    scores: Any = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError(
            f"importance_scores must be a dictionary, got {type(importance_scores).__name__}"
        )
    pairs = list(parameters)
    tensors = [getattr(module, name) for module, name in pairs]
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"global_unstructured() takes methods of PRUNING_TYPE 'unstructured', but that of "
            f"{pruning_method.__name__} is {method.PRUNING_TYPE!r}"
        )
    seen = parameters_to_vector(
        [scores.get(pair, each) for pair, each in zip(pairs, tensors, strict=True)]
    )
    masks = parameters_to_vector(
        [
            getattr(module, f"{name}_mask", ones_like(each))
            for (module, name), each in zip(pairs, tensors, strict=True)
        ]
    )
    container = PruningContainer(method)
    mask = container.compute_mask(seen, masks)
    start = 0
    for (module, name), each in zip(pairs, tensors, strict=True):
        end = start + each.numel()
        custom_from_mask(module, name, mask[start:end].reshape(each.shape))
        start = end


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune the elements at which ``mask``, in the shape of the parameter, is 0.

    Raises:
        AssertionError: The mask has another shape.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter ordinary again; its pruned elements stay zero.

    Raises:
        ValueError: It is not pruned.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"'{name}' of {type(module).__name__} is not pruned")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of this module, or of a submodule, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for each in module.modules()
        for hook in each._forward_pre_hooks.values()
    )
