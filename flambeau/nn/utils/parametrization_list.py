"""The parametrizations of one tensor, and the tensors that they compute it from."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module
from flambeau.nn.modules.container import ModuleList
from flambeau.nn.parameter import Parameter

__all__ = ["ParametrizationList"]


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in the order in which they are applied.

    `register_parametrization` creates it as ``module.parametrizations.<tensor_name>``.

    Args:
        modules: The parametrizations.
        original: The tensor to parametrize.
        unsafe: Whether they may change its shape or dtype.

    Attributes:
        original: The source of the tensor; ``original0``, ``original1`` and so on if the
            ``right_inverse`` of the first parametrization returns several tensors.
        is_tensor: Whether the source is a single tensor.
        ntensors: The number of source tensors.

    Raises:
        ValueError: There are no parametrizations, ``right_inverse`` returns objects other than
            tensors, or shape or dtype change. ``original`` is then unchanged.
    """

    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("a ParametrizationList needs at least one parametrization")
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            new = self._first_values(original)
        self.is_tensor: bool = isinstance(new, Tensor)
        parts = [new] if isinstance(new, Tensor) else list(new)
        self.ntensors: int = len(parts)
        if isinstance(new, Tensor):
            _check_single(original, new)
        else:
            _check_parts(parts)
            parts = [_like(original, each) for each in parts]
        if not unsafe:
            # The tensor itself if it stays the trained one, so that its gradients are visible.
            self._check_value(original, self._chained(*parts))
        if isinstance(new, Tensor):
            with no_grad():
                set_to(original, new)
            parts = [original]
        for name, part in zip(self.originals, parts, strict=True):
            register(self, name, part)

    @property
    def originals(self) -> list[str]:
        """The names of the source tensors."""
        if self.is_tensor:
            return ["original"]
        return [f"original{number}" for number in range(self.ntensors)]

    def _first_values(self, value: Tensor) -> Tensor | Sequence[Tensor]:
        for module in reversed(list(self)):
            if hasattr(module, "right_inverse"):
                # If it is not implemented, the parametrization is applied to the present value.
                with contextlib.suppress(NotImplementedError):
                    value = module.right_inverse(value)
        if not isinstance(value, Tensor | Sequence):
            raise ValueError(
                f"right_inverse must give a tensor or a sequence of them, got "
                f"{type(value).__name__}"
            )
        return value

    def _check_value(self, original: Tensor, value: object) -> None:
        if not isinstance(value, Tensor):
            raise ValueError(f"a parametrization must give a tensor, got {type(value).__name__}")
        for fact in ("dtype", "shape"):
            old, new = getattr(original, fact), getattr(value, fact)
            if old != new:
                raise ValueError(
                    f"a parametrization may not change the tensor's {fact}, here from {old} to "
                    f"{new}, unless it is registered with unsafe=True"
                )

    def right_inverse(self, value: Tensor) -> None:
        """Set the source tensors so that the parametrized tensor becomes ``value``.

        Raises:
            RuntimeError: A parametrization has no ``right_inverse``.
            ValueError: Its results do not fit in number or dtype.
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"{type(module).__name__} has no right_inverse, so the tensor that it "
                        "parametrizes cannot be assigned to"
                    )
                value = module.right_inverse(value)
            parts = [value] if self.is_tensor else value
            if not isinstance(parts, Sequence):
                raise ValueError(
                    f"right_inverse must give a sequence of tensors, got {type(value).__name__}"
                )
            if len(parts) != self.ntensors:
                raise ValueError(
                    f"right_inverse must give {self.ntensors} tensors, got {len(parts)}"
                )
            targets = [getattr(self, name) for name in self.originals]
            for name, target, part in zip(self.originals, targets, parts, strict=True):
                if not isinstance(part, Tensor):
                    raise ValueError(f"right_inverse must give tensors, got {type(part).__name__}")
                if part.dtype != target.dtype:
                    raise ValueError(
                        f"right_inverse gives a tensor of {part.dtype} for '{name}', which is "
                        f"{target.dtype}"
                    )
            for target, part in zip(targets, parts, strict=True):
                set_to(target, part)

    def forward(self) -> Tensor:
        """The tensor."""
        return self._chained(*(getattr(self, name) for name in self.originals))

    def _chained(self, *originals: Tensor) -> Tensor:
        first, *others = self
        value = first(*originals)
        for module in others:
            value = module(value)
        return value


def _check_single(original: Tensor, new: Tensor) -> None:
    for fact in ("dtype", "device"):
        old, now = getattr(original, fact), getattr(new, fact)
        if old != now:
            raise ValueError(
                f"a right_inverse that gives one tensor may not change its {fact}, here from "
                f"{old} to {now}"
            )


def _check_parts(parts: Sequence[object]) -> None:
    for number, each in enumerate(parts):
        if not isinstance(each, Tensor):
            raise ValueError(
                f"right_inverse must give a tensor or a sequence of tensors, but element {number} "
                f"is a {type(each).__name__}"
            )


def _like(original: Tensor, part: Tensor) -> Tensor:
    """A part as a parameter, or not, like the original."""
    if isinstance(original, Parameter):
        return Parameter(part, original.requires_grad)
    return part.requires_grad_(original.requires_grad)


def register(module: Module, name: str, tensor: Tensor) -> None:
    """Register ``tensor`` as a parameter of the module if it is one, else as a buffer."""
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def set_to(target: Tensor, value: Tensor) -> None:
    """Give ``target`` the shape and elements of ``value``."""
    if target is value:
        return
    if target.shape == value.shape and target.dtype == value.dtype:
        target._store(value._read())
    else:
        target.data = value.detach().clone()
