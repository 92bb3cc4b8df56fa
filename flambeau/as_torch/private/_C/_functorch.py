"""`torch._C._functorch`: what packages ask about tensors inside of `vmap`."""

from __future__ import annotations

from typing import Any, NoReturn

from flambeau._absent import Absent as _Absent
from flambeau.core.inside import capture
from flambeau.core.tensor import Tensor

__all__: list[str] = []

__getattr__ = _Absent("flambeau._C._functorch")


def is_batchedtensor(tensor: Tensor) -> bool:
    """``False``: inside of `func.vmap` a tensor has the shape of one member of the batch."""
    return False


def is_functorch_wrapped_tensor(tensor: Tensor) -> bool:
    """Whether JAX transforms the function that asks."""
    return capture() is not None


def is_gradtrackingtensor(tensor: Tensor) -> bool:
    """``False``: a gradient by `func.grad` is JAX's, and its tensors are plain ones."""
    return False


def get_unwrapped(tensor: Tensor) -> Tensor:
    """The tensor itself."""
    return tensor


def maybe_get_bdim(tensor: Tensor) -> int:
    """``-1``: a tensor knows of no dimension of a batch."""
    return -1


def maybe_get_level(tensor: Tensor) -> int:
    """``-1``: a tensor knows of no level of `vmap`."""
    return -1


def _refuse(*args: Any) -> NoReturn:
    """Fail: batches are JAX's.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        "a dimension of a batch is neither added to a tensor nor removed: call the function "
        "through flambeau.func.vmap"
    )


_add_batch_dim = _remove_batch_dim = _vmap_increment_nesting = _vmap_decrement_nesting = _refuse
