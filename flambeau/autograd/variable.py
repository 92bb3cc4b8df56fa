"""What a tensor that takes gradients was called once."""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor import Tensor

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableMeta):
    """``Variable(data)`` is a tensor on the same elements; new code uses the tensor.

    Args:
        data: A tensor.
        requires_grad: Whether `backward` shall accumulate gradients for it.

    >>> import flambeau
    >>> flambeau.autograd.Variable(flambeau.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: Any = None) -> Any:
        made = data.detach()
        return made.requires_grad_(True) if requires_grad else made
