"""Predicates on objects and tensors, without computation."""

from __future__ import annotations

from typing import Any

from flambeau.core.devices.layout import contiguous_format, memory_format
from flambeau.core.operators.op import function
from flambeau.core.values.tensor import Tensor, method

__all__ = [
    "get_device", "is_complex", "is_floating_point", "is_inference", "is_nonzero", "is_same_size",
    "is_signed", "is_tensor", "numel",
]  # fmt: skip


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a `Tensor`."""
    return isinstance(obj, Tensor)


def _tensor(name: str, input: Any) -> Tensor:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): input must be a Tensor, got {type(input).__name__}")
    return input


@function
def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype of ``input`` is a real floating point type."""
    return _tensor("is_floating_point", input).is_floating_point()


@function
def is_complex(input: Tensor) -> bool:
    """Whether the dtype of ``input`` is complex."""
    return _tensor("is_complex", input).is_complex()


@function
def is_signed(input: Tensor) -> bool:
    """Whether the dtype of ``input`` has negative values."""
    return _tensor("is_signed", input).is_signed()


@function
def is_inference(input: Tensor) -> bool:
    """Whether ``input`` was made in `inference_mode`."""
    return _tensor("is_inference", input).is_inference()


@function(method=True)
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element of ``input`` is not zero.

    Raises:
        RuntimeError: There is more than one element, or none.
    """
    return bool(_tensor("is_nonzero", input))


@function(method=True)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return _tensor("is_same_size", input).shape == _tensor("is_same_size", other).shape


@function
def numel(input: Tensor) -> int:
    """The number of elements of ``input``.

    >>> import flambeau
    >>> flambeau.numel(flambeau.zeros(2, 3))
    6
    """
    return _tensor("numel", input).numel()


@function
def get_device(input: Tensor) -> int:
    """The index of the GPU of ``input``, -1 for the CPU."""
    return _tensor("get_device", input).get_device()


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Always false: see `Tensor.pin_memory`."""
    return False


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """This tensor itself: transfers to a device do not need pinned memory."""
    return self


@method
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool = True) -> Tensor:
    """This tensor, in ``dtype`` if one is given: every tensor is dense."""
    return self if dtype is None else self.to(dtype)


@method
def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the outermost to the innermost: every tensor is contiguous.

    Args:
        ambiguity_check: ``True`` to fail if another order would describe the same elements, as with
            a size of 1; a list of memory formats, not to fail if the tensor has exactly one of
            them.

    Raises:
        RuntimeError: See above.
        TypeError: ``ambiguity_check`` is of another type.
    """
    formats = ambiguity_check if isinstance(ambiguity_check, list) else []
    is_known = isinstance(ambiguity_check, bool | list)
    if not is_known or any(not isinstance(each, memory_format) for each in formats):
        raise TypeError(
            "dim_order(): ambiguity_check must be a bool or a list of memory formats, got "
            f"{ambiguity_check!r}"
        )
    settled = formats.count(contiguous_format) == 1 and not _has_channels_anywhere(self.shape)
    if ambiguity_check is not False and _has_other_orders(self.shape) and not settled:
        raise RuntimeError(
            f"dim_order(): a tensor of shape {list(self.shape)} can be read in several orders"
        )
    return tuple(range(self.ndim))


def _has_other_orders(shape: tuple[int, ...]) -> bool:
    return 1 in shape or 0 in shape[1:]


def _has_channels_anywhere(shape: tuple[int, ...]) -> bool:
    """Whether images have the same elements in the same order with channels last."""
    return len(shape) in (4, 5) and 0 not in shape and (shape[1] == 1 or max(shape[2:]) == 1)


# Kinds of tensors that exist only in PyTorch, which code written for it checks.
for _kind in (
    "is_ipu", "is_maia", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized",
    "is_sparse", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu",
):  # fmt: skip
    setattr(Tensor, _kind, False)
