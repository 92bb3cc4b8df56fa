"""The older spectral normalization, by a hook; replaced by `parametrizations.spectral_norm`."""

from __future__ import annotations

from typing import TypeVar

from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.nn import functional as F
from flambeau.nn.common_types import Kwargs, StateDict
from flambeau.nn.module import Module
from flambeau.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from flambeau.nn.parameter import Parameter, UninitializedParameter
from flambeau.nn.registry import HookRegistry
from flambeau.ops.draws.sampling import randn
from flambeau.ops.neural.reparametrization import divided_by_sigma, power_iterations, right_vector

__all__ = [
    "SpectralNorm",
    "SpectralNormLoadStateDictPreHook",
    "SpectralNormStateDictHook",
    "remove_spectral_norm",
    "spectral_norm",
]

AnyModule = TypeVar("AnyModule", bound=Module)


class SpectralNorm:
    """The hook that divides a weight by its greatest singular value before each call.

    Args:
        name: The name of the weight.
        n_power_iterations: The number of power iterations at each call in training.
        dim: The dimension that is the rows of the matrix.
        eps: The least norm to divide by.
    """

    # Version 1: the right singular vector is saved too.
    _version: int = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(f"n_power_iterations must be positive, got {n_power_iterations}")
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight as a matrix, with ``dim`` as its rows and all others as its columns."""
        return weight.movedim(self.dim, 0).reshape(weight.size(self.dim), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The normalized weight; ``do_power_iteration`` refines the singular vectors first."""
        weight, u, v = (getattr(module, self.name + each) for each in ("_orig", "_u", "_v"))
        if do_power_iteration:
            with no_grad():
                found = power_iterations(
                    weight, u, v, self.n_power_iterations, self.dim, self.eps, False
                )
                for vector, new in zip((u, v), found, strict=True):
                    vector._store(new._read())
        return divided_by_sigma(weight, u, v, self.dim)

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Normalize a weight of a module; see `spectral_norm`."""
        if _find(module._forward_pre_hooks, SpectralNorm, name) is not None:
            raise RuntimeError(f"'{name}' already has a spectral_norm; remove it first")
        hook = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"spectral_norm() needs a weight, but '{name}' is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                f"'{name}' has no shape yet; call the module once before spectral_norm()"
            )
        rows = weight.size(dim)
        vectors = []
        with no_grad():
            for size in (rows, weight.numel() // rows):
                drawn = randn(size, dtype=weight.dtype, device=weight.device)
                vectors.append(F.normalize(drawn, dim=0, eps=eps))
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        # A plain attribute, for code that reads it before the first call.
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", vectors[0])
        module.register_buffer(f"{name}_v", vectors[1])
        module.register_forward_pre_hook(hook)
        module._register_state_dict_hook(SpectralNormStateDictHook(hook))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(hook))
        return hook

    def remove(self, module: Module) -> None:
        """Make the normalized weight a parameter."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: object) -> None:
        """Recompute the weight."""
        setattr(module, self.name, self.compute_weight(module, module.training))


class SpectralNormLoadStateDictPreHook:
    """Completes states that were saved before version 1, which added the right singular vector.

    Args:
        fn: The hook of the weight.
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self,
        state_dict: StateDict,
        prefix: str,
        local_metadata: Kwargs,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Add the right singular vector to an old state, from its weight and normalized weight."""
        name = self.fn.name
        version = local_metadata.get("spectral_norm", {}).get(f"{name}.version")
        key = prefix + name
        if version is not None and version >= 1:
            return
        whole = all(key + suffix in state_dict for suffix in ("_orig", "_u", "_v"))
        if version is None and whole and key not in state_dict:
            return
        missing = [key + each for each in ("_orig", "", "_u") if key + each not in state_dict]
        if missing:
            missing_keys += missing if strict else []
            return
        with no_grad():
            original, normalized = state_dict[f"{key}_orig"], state_dict.pop(key)
            sigma = (original / normalized).mean()
            u = state_dict[f"{key}_u"]
            state_dict[f"{key}_v"] = right_vector(original, u, sigma, self.fn.dim)


class SpectralNormStateDictHook:
    """Records the format version in a state's metadata.

    Args:
        fn: The hook of the weight.
    """

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, module: Module, state_dict: StateDict, prefix: str, local_metadata: Kwargs
    ) -> None:
        """Add the version."""
        versions = local_metadata.setdefault("spectral_norm", {})
        key = f"{self.fn.name}.version"
        if key in versions:
            raise RuntimeError(f"the metadata of spectral_norm already has '{key}'")
        versions[key] = self.fn._version


def spectral_norm(
    module: AnyModule,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> AnyModule:
    """Divide a weight by its greatest singular value, https://arxiv.org/abs/1802.05957.

    The parameter becomes ``<name>_orig``; its singular vectors are the buffers ``<name>_u`` and
    ``<name>_v``. `parametrizations.spectral_norm` does the same with a parametrization.

    Args:
        module: The module.
        name: The name of its weight.
        n_power_iterations: The number of power iterations at each call in training.
        eps: The least norm to divide by.
        dim: The dimension that is the rows of the matrix; by default 1 for transposed convolutions
            and else 0.

    Returns:
        ``module``.

    Raises:
        RuntimeError: The weight is normalized already.
        ValueError: The weight is ``None`` or has no shape yet, or ``n_power_iterations`` is not
            positive.
    """
    if dim is None:
        transposed = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
        dim = 1 if isinstance(module, transposed) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: AnyModule, name: str = "weight") -> AnyModule:
    """Undo `spectral_norm`; the weight keeps its normalized value.

    Raises:
        ValueError: The weight is not normalized.
    """
    key = _find(module._forward_pre_hooks, SpectralNorm, name)
    if key is None:
        raise ValueError(f"{type(module).__name__} has no spectral_norm of '{name}'")
    module._forward_pre_hooks[key].remove(module)
    del module._forward_pre_hooks[key]
    kinds = (SpectralNormStateDictHook, SpectralNormLoadStateDictPreHook)
    for hooks, kind in zip(
        (module._state_dict_hooks, module._load_state_dict_pre_hooks), kinds, strict=True
    ):
        key = _find(hooks, kind, name)
        if key is not None:
            del hooks[key]
    return module


def _find(hooks: HookRegistry, kind: type, name: str) -> int | None:
    """The key of the hook of this kind for the weight ``name``."""
    for key, hook in hooks.items():
        # Hooks on the loading of states are in a wrapper that may hold the module.
        hook = getattr(hook, "hook", hook)
        if isinstance(hook, kind) and getattr(hook, "fn", hook).name == name:
            return key
    return None
