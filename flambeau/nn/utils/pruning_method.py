"""The base of all pruning methods: applying a mask, and combining masks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter, UninitializedParameter
from flambeau.ops.factories.creation import ones_like

__all__ = ["BasePruningMethod", "PruningContainer"]


class BasePruningMethod(ABC):
    """A rule that chooses which elements of a parameter are pruned.

    A subclass sets ``PRUNING_TYPE``, its scope when a parameter is pruned repeatedly:
    ``"unstructured"`` for the remaining elements, ``"structured"`` for the remaining slices along
    its ``dim``, ``"global"`` for all elements. The instance is the hook that computes the parameter
    before each call.
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: object) -> None:
        """Recompute the pruned parameter."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of ``t``: 0 where it is pruned, and where ``default_mask`` is 0."""

    def apply_mask(self, module: Module) -> Tensor:
        """The parameter times its mask."""
        mask = getattr(module, f"{self._tensor_name}_mask")
        original = getattr(module, f"{self._tensor_name}_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prune a parameter of a module with this method.

        Args:
            module: The module.
            name: The name of the parameter, which may have been pruned before.
            *args: The arguments of the method.
            importance_scores: The tensor that the method compares, of the parameter's shape.
            **kwargs: As ``args``.

        Returns:
            The hook: an instance, or for a parameter that was pruned before a `PruningContainer`.

        Raises:
            AssertionError: ``importance_scores`` has another shape. The module is then unchanged.
            TypeError: The attribute of this name is not a parameter.
            ValueError: It has no shape yet.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        key, old = _method_of(module, name)
        original = getattr(module, name)
        if old is None:
            _check_parameter(module, name, original)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores must have the shape of '{name}', {list(original.shape)}, "
                f"got {list(scores.shape)}"
            )
        if old is None:
            mask = method.compute_mask(scores, ones_like(original).detach())
            hook: BasePruningMethod = method
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", original)
        else:
            hook = PruningContainer(*old, method)
            mask = hook.compute_mask(scores, getattr(module, f"{name}_mask").detach().clone())
            del module._forward_pre_hooks[key]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, hook.apply_mask(module))
        module.register_forward_pre_hook(hook)
        return hook

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """A pruned copy of a tensor.

        Args:
            t: The tensor.
            default_mask: The mask so far; by default nothing is pruned.
            importance_scores: The tensor that the method compares instead, of the same shape.

        Raises:
            AssertionError: ``importance_scores`` has another shape.
        """
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores must have the tensor's shape {list(t.shape)}, "
                f"got {list(scores.shape)}"
            )
        mask = ones_like(t).detach() if default_mask is None else default_mask
        return t * self.compute_mask(scores, mask)

    def remove(self, module: Module) -> None:
        """Make the parameter ordinary again; its pruned elements stay zero."""
        name = self._tensor_name
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters[f"{name}_orig"]
        original.data = pruned.data
        del module._parameters[f"{name}_orig"]
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def _check_parameter(module: Module, name: str, original: object) -> None:
    if not isinstance(original, Parameter):
        raise TypeError(
            f"only parameters can be pruned, but '{name}' of {type(module).__name__} is "
            f"{'None' if original is None else 'a ' + type(original).__name__}"
        )
    if isinstance(original, UninitializedParameter):
        raise ValueError(f"'{name}' has no shape yet; call the module once before pruning it")


def _method_of(module: Module, name: str) -> tuple[Any, list[BasePruningMethod] | None]:
    """The hook that prunes a parameter, by its key, and its methods; ``None`` if there is none."""
    found = [
        (key, hook)
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]
    if not found:
        return None, None
    if len(found) > 1:
        raise AssertionError(
            f"'{name}' of {type(module).__name__} has {len(found)} pruning hooks; put the methods "
            "into one PruningContainer"
        )
    ((key, hook),) = found
    return key, list(hook) if isinstance(hook, PruningContainer) else [hook]


class PruningContainer(BasePruningMethod):
    """Several methods that prune one parameter in sequence.

    Args:
        *args: The methods.
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add a method after the others.

        Raises:
            TypeError: It is not a `BasePruningMethod`.
            ValueError: It prunes another parameter.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method).__name__} is not a subclass of BasePruningMethod")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"a PruningContainer for '{self._tensor_name}' takes no method that prunes "
                f"'{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask after the last method, which is applied to the remaining elements."""
        method = self._pruning_methods[-1]
        part = _part_left(method, t, default_mask)
        mask = default_mask.to(t.dtype)
        mask[part] = method.compute_mask(t[part], default_mask=default_mask[part]).to(t.dtype)
        return mask


def _part_left(method: Any, t: Tensor, mask: Tensor) -> Tensor | tuple[slice | Tensor, ...]:
    """The part of a tensor that a method applies to, as an index."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "global":
        return (slice(None),) * t.dim()
    if method.PRUNING_TYPE != "structured":
        raise ValueError(
            "PRUNING_TYPE must be 'unstructured', 'structured' or 'global', "
            f"got {method.PRUNING_TYPE!r}"
        )
    if not hasattr(method, "dim"):
        raise AttributeError(
            f"{type(method).__name__} has PRUNING_TYPE 'structured', so it needs an attribute dim"
        )
    dim = method.dim + t.dim() if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"dimension {method.dim} is out of range for a tensor of {t.dim()}")
    others = [each for each in range(t.dim()) if each != dim]
    left = mask.sum(dim=others) != 0
    return tuple([left if each == dim else slice(None) for each in range(t.dim())])
