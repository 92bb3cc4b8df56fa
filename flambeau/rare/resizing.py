"""Tensors that change their number of elements, and explicit memory layouts.

Every tensor behaves as a contiguous one, so layouts do not affect the result, but they are checked.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp

from flambeau.core.kernels.kinds import Array
from flambeau.core.operators.op import function, op
from flambeau.core.support.modes import modes
from flambeau.core.values.cell import Cell
from flambeau.core.values.convert import legacy_array
from flambeau.core.values.history import is_part
from flambeau.core.values.tensor import Tensor
from flambeau.ops.factories.creation import empty
from flambeau.ops.factories.factory import shape_of, wrap_new

__all__ = ["as_strided_", "as_strided_scatter", "empty_permuted", "empty_strided", "resize_as_"]


@op(differentiable=False)
def _resized(input: Array, size: tuple[int, ...]) -> Array:
    flat, count = input.ravel(), math.prod(size)
    return jnp.pad(flat[:count], (0, max(0, count - flat.size))).reshape(size)


@function(method=True)
def resize_(self: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Resize this tensor in place, keeping its elements in order, with zeros after them.

    Unlike in PyTorch, a tensor that was made smaller loses the dropped elements, and tensors that
    shared its elements keep the old ones.

    Raises:
        RuntimeError: The tensor requires grad or is a view, or a size is negative.
    """
    size = shape_of("resize_", sizes)
    if self.requires_grad:
        raise RuntimeError("resize_(): a tensor that requires grad cannot be resized; detach it")
    if size == tuple(self.shape):
        return self
    if is_part(self):
        raise RuntimeError(
            f"resize_(): a view of shape {list(self.shape)} cannot be resized; clone() it first"
        )
    _reshape(self, _resized(self, size)._read())
    return self


@function(method=True)
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """`Tensor.resize_` to the size of another tensor."""
    return input.resize_(tuple(the_template.shape))


@function(method=True)
def as_strided_(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Make this tensor the result of `as_strided`.

    Raises:
        RuntimeError: The tensor requires grad or is a view; the sizes do not fit the elements.
    """
    found = input.as_strided(size, stride, storage_offset).clone()
    if (input.requires_grad and modes.grad_enabled) or is_part(input):
        raise RuntimeError(
            "as_strided_(): neither a view nor a tensor that requires grad can be changed; use "
            "as_strided()"
        )
    _reshape(input, found._read())
    return input


def _reshape(tensor: Tensor, array: Any) -> None:
    """Give ``tensor`` elements of another shape."""
    cell = Cell(array)
    cell.version = tensor._cell.version + 1
    tensor._become(cell, None)


@function(method=True)
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Any:
    """A copy of ``input`` with the elements selected by `as_strided` replaced by ``src``.

    Raises:
        RuntimeError: ``src`` has another size; the sizes do not fit the elements of ``input``.
    """
    if tuple(src.shape) != tuple(size):
        raise RuntimeError(
            f"as_strided_scatter(): src has shape {list(src.shape)}, but size is {list(size)}"
        )
    whole = input.clone()
    whole.as_strided(size, stride, storage_offset).copy_(src)
    return whole


@function(method=True)
def new(self: Tensor, *args: Any, **options: Any) -> Tensor:
    """A tensor with this one's dtype, by the rules of `flambeau.Tensor`: of a size, or with data.

    New code uses `Tensor.new_empty` or `Tensor.new_tensor`.

    Raises:
        TypeError: There is neither a size nor data.
    """
    options.setdefault("device", self.device)
    if len(args) == 1 and isinstance(args[0], Tensor):
        return args[0].to(self.dtype).detach()
    return wrap_new("new", legacy_array(args, options, self.dtype, "new"))


def empty_strided(
    size: Any, stride: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """`empty` of a size; the strides are only checked.

    Raises:
        RuntimeError: The numbers of strides and sizes differ, or a stride is negative.
    """
    shape_of("empty_strided", (tuple(stride),))
    _check_as_many("empty_strided", "strides", size, stride)
    return empty(tuple(size), dtype=dtype, layout=layout, device=device,
                 requires_grad=requires_grad)  # fmt: skip


def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """`empty` of a size; the order of the dimensions in memory is only checked.

    Raises:
        RuntimeError: ``physical_layout`` is not a permutation of the dimensions.
    """
    _check_as_many("empty_permuted", "dimensions", size, physical_layout)
    if sorted(physical_layout) != list(range(len(size))):
        raise RuntimeError(
            f"empty_permuted(): {list(physical_layout)} does not name each of {len(size)} "
            "dimensions once"
        )
    return empty(tuple(size), dtype=dtype, layout=layout, device=device,
                 requires_grad=requires_grad)  # fmt: skip


def _check_as_many(name: str, subject: str, size: Any, given: Any) -> None:
    if len(size) != len(given):
        raise RuntimeError(f"{name}(): {len(given)} {subject} for {len(size)} sizes")


@function(method=True)
def new_empty_strided(
    self: Tensor, size: Any, stride: Any, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """`empty_strided` with this tensor's dtype and device."""
    return empty_strided(
        size, stride, dtype=self.dtype if dtype is None else dtype, layout=layout,
        device=self.device if device is None else device, requires_grad=requires_grad,
    )  # fmt: skip
