"""Methods of Tensor that return its memory as a storage, or alias another storage."""

from __future__ import annotations

import math
from typing import Any

from flambeau.core.support.modes import no_grad
from flambeau.core.values.strides import contiguous_strides
from flambeau.core.values.tensor import Tensor
from flambeau.storage import CLASSES, TypedStorage, UntypedStorage

__all__: list[str] = []


def _untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory that this tensor views, as bytes."""
    return UntypedStorage._of(self)


def _storage(self: Tensor) -> TypedStorage:
    """The memory that this tensor views, as elements of its dtype."""
    return TypedStorage(wrap_storage=UntypedStorage._of(self), dtype=self.dtype)


def _storage_type(self: Tensor) -> Any:
    """The class that this tensor's `storage` had in older versions."""
    return CLASSES[self.dtype]


def _set_(
    self: Tensor,
    source: Any = None,
    storage_offset: int = 0,
    size: Any = None,
    stride: Any = None,
) -> Tensor:
    """Make this tensor alias the elements of a tensor or a storage, or none without a source.

    Args:
        source: A tensor of the same dtype, or a storage.
        storage_offset: The first element.
        size: The shape; by default that of a tensor, or all elements of a storage.
        stride: The stride of each dimension in elements; contiguous by default.

    Raises:
        RuntimeError: ``source`` has another dtype, or the view exceeds its end.
    """
    if source is None:
        source, size = UntypedStorage(0, device=self.device), (0,)
    if getattr(source, "dtype", self.dtype) is not self.dtype:
        raise RuntimeError(f"set_(): a tensor of {self.dtype} cannot share {source.dtype} elements")
    if isinstance(source, Tensor) and size is None:
        self.data = source
        return self
    if isinstance(source, Tensor):
        flat = UntypedStorage._of(source)._flat(self.dtype)
    else:
        flat = source.untyped()._flat(self.dtype)
    shape = (flat.numel() - storage_offset,) if size is None else tuple(size)
    end = storage_offset + math.prod(shape)
    with no_grad():
        if stride is not None and tuple(stride) != contiguous_strides(shape):
            self.data = flat.as_strided(shape, tuple(stride), storage_offset)
        elif storage_offset >= 0 and end <= flat.numel():
            self.data = flat[storage_offset:end].view(shape)
        else:
            raise RuntimeError(
                f"set_(): size {list(shape)} from element {storage_offset} on is out of bounds for "
                f"storage of {flat.numel()} elements"
            )
    return self


def _const_data_ptr(self: Tensor) -> int:
    """`Tensor.data_ptr`."""
    return self.data_ptr()


def _is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether this tensor and another are the same view of the same elements.

    >>> import flambeau
    >>> x = flambeau.ones(2, 3)
    >>> x.is_set_to(x.detach()), x.is_set_to(x[:1])
    (True, False)
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"is_set_to() takes a Tensor, got {type(tensor).__name__}")
    return self._cell is tensor._cell and _window(self) == _window(tensor)


def _window(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.storage_offset(), tensor.shape, tensor.stride()


for _method in (_const_data_ptr, _is_set_to, _set_, _storage, _storage_type, _untyped_storage):
    _method.__name__ = _method.__name__[1:]
    _method.__qualname__ = f"Tensor.{_method.__name__}"
    setattr(Tensor, _method.__name__, _method)
