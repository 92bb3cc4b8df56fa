"""`torch._utils`: the functions that pickles of tensors call, and flattening of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from flambeau._absent import Absent as _Absent
from flambeau.accelerator import current_accelerator
from flambeau.core.values.tensor import Tensor
from flambeau.device_modules import get_device_module as _get_device_module  # noqa: F401
from flambeau.nn.parameter import Parameter
from flambeau.nn.utils import parameters_to_vector
from flambeau.ops.factories.creation import empty
from flambeau.ops.factories.from_data import from_numpy
from flambeau.sparse.creation import sparse_coo_tensor
from flambeau.storage import TypedStorage, UntypedStorage

__all__: list[str] = []

__getattr__ = _Absent("flambeau._utils")


def _get_available_device_type() -> str | None:
    """The available accelerator type, such as ``"cuda"``."""
    found = current_accelerator()
    return None if found is None else found.type


def _rebuild_tensor(
    storage: TypedStorage, storage_offset: int, size: tuple[int, ...], stride: tuple[int, ...]
) -> Tensor:
    """A view of a storage with these sizes and strides."""
    result = empty(0, dtype=storage.dtype, device=storage.device)
    return result.set_(storage, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage: TypedStorage, storage_offset: int, size: tuple[int, ...], stride: tuple[int, ...],
    requires_grad: bool, backward_hooks: Any, metadata: Any = None,
) -> Tensor:  # fmt: skip
    """`_rebuild_tensor`, as a leaf tensor."""
    result = _rebuild_tensor(storage, storage_offset, size, stride)
    return result.requires_grad_() if requires_grad else result


def _rebuild_tensor_v3(
    storage: UntypedStorage, storage_offset: int, size: tuple[int, ...], stride: tuple[int, ...],
    requires_grad: bool, backward_hooks: Any, dtype: Any, metadata: Any = None,
) -> Tensor:  # fmt: skip
    """`_rebuild_tensor_v2` of a byte storage, with an explicit dtype."""
    untyped = storage.untyped() if isinstance(storage, TypedStorage) else storage
    typed = TypedStorage(wrap_storage=untyped, dtype=dtype)
    return _rebuild_tensor_v2(typed, storage_offset, size, stride, requires_grad, backward_hooks)


def _rebuild_device_tensor_from_numpy(
    data: np.ndarray, dtype: Any, device: str, requires_grad: bool
) -> Tensor:
    """A tensor with an array's values, in a dtype that NumPy may lack."""
    result = from_numpy(np.array(data)).to(dtype=dtype, device=device)
    return result.requires_grad_() if requires_grad else result


def _rebuild_meta_tensor_no_storage(
    dtype: Any, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool
) -> Tensor:
    """A tensor on the meta device."""
    return empty(size, dtype=dtype, device="meta", requires_grad=requires_grad)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    """A parameter with a tensor's elements."""
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any
) -> Parameter:
    """A parameter with its pickled attributes."""
    return _set_obj_state(Parameter(data, requires_grad), state)


def _rebuild_sparse_tensor(layout: Any, data: tuple[Any, ...]) -> Tensor:
    """A sparse tensor of its indices, values and size."""
    indices, values, size, *coalesced = data
    return sparse_coo_tensor(
        indices, values, size, is_coalesced=coalesced[0] if coalesced else None
    )


def _set_obj_state(obj: Any, state: Any) -> Any:
    """Restore the attributes of an object."""
    attributes = state[0] if isinstance(state, tuple) else state
    for name, value in (attributes or {}).items():
        setattr(obj, name, value)
    for name, value in (state[1] if isinstance(state, tuple) else {}).items():
        setattr(obj, name, value)
    return obj


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of the tensors in one vector."""
    return parameters_to_vector(tensors)


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Split a vector into the shapes of ``tensors``."""
    parts = flat.split([each.numel() for each in tensors])
    return tuple(part.view_as(each) for part, each in zip(parts, tensors, strict=True))


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of one type, of about ``size_limit`` bytes each."""
    lists: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        found = lists.setdefault(tensor.type(), [])
        found.append(tensor)
        if sum(each.nbytes for each in found) >= size_limit:
            yield lists.pop(tensor.type())
    yield from lists.values()
