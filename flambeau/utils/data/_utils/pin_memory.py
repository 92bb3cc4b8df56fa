"""`pin_memory` of batches, under the name of PyTorch's private module."""

from typing import Any

from flambeau.core.tensor import Tensor
from flambeau.utils._pytree import tree_map

__all__ = ["pin_memory"]


def pin_memory(data: Any, device: Any = None) -> Any:
    """A batch whose tensors are in pinned memory.

    Args:
        data: Tensors in containers, or an object with a method ``pin_memory``.
        device: Accepted for PyTorch's sake.
    """

    def pinned(value: Any) -> Any:
        takes = isinstance(value, Tensor) or hasattr(value, "pin_memory")
        return value.pin_memory() if takes else value

    return tree_map(pinned, data)
