"""`torch._tensor`: the class of tensors."""

from flambeau.core.tensor import Tensor

__all__ = ["Tensor"]
