"""The older weight normalization, by a hook; replaced by `parametrizations.weight_norm`."""

from __future__ import annotations

from typing import TypeVar

from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter, UninitializedParameter
from flambeau.ops.neural import reparametrization

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

AnyModule = TypeVar("AnyModule", bound=Module)


class WeightNorm:
    """The hook that computes a weight from its length and direction before each call.

    Args:
        name: The name of the weight.
        dim: The dimension with one length per slice; -1 for one length of the whole.
    """

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim: int = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """``g * v / |v|``."""
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return reparametrization.weight_norm(v, g, self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Normalize a weight of a module; see `weight_norm`."""
        if _hook_of(module, name) is not None:
            raise RuntimeError(f"'{name}' already has a weight_norm; remove it first")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        if weight is None:
            raise TypeError(f"weight_norm() needs a weight, but '{name}' is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                f"'{name}' has no shape yet; call the module once before weight_norm()"
            )
        norms = reparametrization.norm_except_dim(weight.detach(), 2, hook.dim)
        del module._parameters[name]
        module.register_parameter(f"{name}_g", Parameter(norms))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, hook.compute_weight(module))
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module: Module) -> None:
        """Make the weight a parameter again."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"]
        del module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: object) -> None:
        """Recompute the weight."""
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: AnyModule, name: str = "weight", dim: int | None = 0) -> AnyModule:
    """Train a weight's length ``<name>_g`` and direction ``<name>_v`` separately.

    Deprecated: use `parametrizations.weight_norm`, which loads states saved with this one.

    Args:
        module: The module.
        name: The name of its weight.
        dim: The dimension with one length per slice; ``None`` for one length of the whole.

    Returns:
        ``module``.

    Raises:
        RuntimeError: The weight is normalized already.
        TypeError: The weight is ``None``.
        ValueError: The weight has no shape yet.
        IndexError: There is no such dimension.
    """
    warn(
        "flambeau.nn.utils.weight_norm is deprecated, use "
        "flambeau.nn.utils.parametrizations.weight_norm",
        FutureWarning,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: AnyModule, name: str = "weight") -> AnyModule:
    """Undo `weight_norm`; the weight keeps its value.

    Raises:
        ValueError: The weight is not normalized.
    """
    key = _hook_of(module, name)
    if key is None:
        raise ValueError(f"{type(module).__name__} has no weight_norm of '{name}'")
    module._forward_pre_hooks[key].remove(module)
    del module._forward_pre_hooks[key]
    return module


def _hook_of(module: Module, name: str) -> int | None:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            return key
    return None
