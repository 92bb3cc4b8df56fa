"""Views with ``_copy`` in their names: copies of the viewed elements.

A write to the result does not change the input, nor vice versa. PyTorch names their nodes after the
view with the suffix ``_copy``; here the last node is that of the copy.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.operators.op import function
from flambeau.core.values.tensor import Tensor
from flambeau.ops.shapes.views import alias, view_as_complex, view_as_real

__all__ = [
    "alias_copy", "as_strided_copy", "detach_copy", "diagonal_copy", "expand_copy", "narrow_copy",
    "permute_copy", "select_copy", "slice_copy", "split_copy", "split_with_sizes_copy",
    "squeeze_copy", "t_copy", "transpose_copy", "unbind_copy", "unfold_copy", "unsqueeze_copy",
    "view_as_complex_copy", "view_as_real_copy", "view_copy",
]  # fmt: skip


def _own(view: Any) -> Any:
    """A copy of a view, or of each of several."""
    return tuple(each.clone() for each in view) if isinstance(view, tuple) else view.clone()


@function(method=True)
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Any:
    """A copy of `narrow`."""
    return _own(input.narrow(dim, start, length))


@function
def slice_copy(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """A copy of the elements from ``start`` to ``end`` (exclusive) along ``dim``, with a step.

    Raises:
        RuntimeError: The step is not positive.
        IndexError: There is no such dimension.
    """
    if step < 1:
        raise RuntimeError(f"slice_copy(): the step must be positive, got {step}")
    return _own(input.transpose(0, dim)[start:end:step].transpose(0, dim))


@function
def view_copy(input: Tensor, size: Any = None, *, dtype: Any = None) -> Any:
    """A copy of `Tensor.view` with another shape, or with another dtype."""
    return _own(input.view(size if dtype is None else dtype))


@function
def alias_copy(input: Tensor) -> Any:
    """A copy of `alias`."""
    return _own(alias(input))


@function
def as_strided_copy(
    input: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Any:
    """A copy of `as_strided`."""
    return _own(input.as_strided(size, stride, storage_offset))


@function
def expand_copy(input: Tensor, size: Any, *, implicit: bool = False) -> Any:
    """A copy of `Tensor.expand`."""
    return _own(input.expand(size))


@function
def split_copy(input: Tensor, split_size: int, dim: int = 0) -> Any:
    """A copy of `split`."""
    return _own(input.split(split_size, dim))


@function
def view_as_complex_copy(input: Tensor) -> Any:
    """A copy of `view_as_complex`."""
    return _own(view_as_complex(input))


@function
def view_as_real_copy(input: Tensor) -> Any:
    """A copy of `view_as_real`."""
    return _own(view_as_real(input))


def _copy_of(method: str) -> Any:
    """The copying function for a method of Tensor that returns a view."""

    def copy(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        return _own(getattr(input, method)(*args, **kwargs))

    copy.__name__ = copy.__qualname__ = f"{method}_copy"
    copy.__doc__ = f"A copy of `{method}`."
    return function(copy)


squeeze_copy: Any = _copy_of("squeeze")
detach_copy: Any = _copy_of("detach")
diagonal_copy: Any = _copy_of("diagonal")
permute_copy: Any = _copy_of("permute")
select_copy: Any = _copy_of("select")
split_with_sizes_copy: Any = _copy_of("split_with_sizes")
t_copy: Any = _copy_of("t")
transpose_copy: Any = _copy_of("transpose")
unbind_copy: Any = _copy_of("unbind")
unfold_copy: Any = _copy_of("unfold")
unsqueeze_copy: Any = _copy_of("unsqueeze")
