"""Functions that PyTorch keeps for older programs, with newer equivalents."""

from __future__ import annotations

from typing import Any

from flambeau.core.operators.op import function
from flambeau.core.support.dtype import INTEGER, get_default_dtype, int64, set_default_dtype
from flambeau.core.support.warning import warn
from flambeau.core.values.tensor import Tensor
from flambeau.ops.factories.conversion import TYPE_NAMES
from flambeau.ops.factories.from_data import tensor
from flambeau.ops.factories.ranges import arange
from flambeau.ops.matrices.matrix_functions import matrix_norm
from flambeau.ops.matrices.norms import norm
from flambeau.ops.neural.reparametrization import norm_except_dim

__all__ = [
    "fill", "frobenius_norm", "norm_except_dim", "nuclear_norm", "range", "set_default_tensor_type",
    "to_dlpack", "typename", "unsafe_split_with_sizes",
]  # fmt: skip


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The sizes of a tensor, as a tensor of integers; PyTorch's exporter to ONNX reads it."""
    return tensor(tuple(self.shape), dtype=int64)


@function
def fill(input: Tensor, value: Any) -> Any:
    """A copy of ``input`` that is `Tensor.fill_`\\ ed with a number or a 0-d tensor."""
    return input.clone().fill_(value)


@function
def frobenius_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The root of the sum of squares over some dimensions; see `linalg.vector_norm`."""
    return norm(input, "fro", dim, keepdim)


@function
def nuclear_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The sum of the singular values over two dimensions; see `linalg.matrix_norm`."""
    return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)


def range(
    start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """The numbers ``start, start + step, ...`` up to ``end``, inclusive.

    New code uses `arange`, which excludes ``end`` like Python's ``range``. See `arange` for the
    arguments; the default dtype is always the floating point one.

    Raises:
        RuntimeError: The step is zero or leads away from ``end``.
    """
    warn("range() is deprecated; use arange(), which leaves `end` out")
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("range(): step must not be zero")
    if (end - start) * step < 0:
        raise RuntimeError(f"range(): a step of {step} does not lead from {start} to {end}")
    count = int((end - start) / step) + 1
    dtype = get_default_dtype() if dtype is None else dtype
    # Half a step after the last number, so that rounding can neither drop nor add one.
    behind = count if dtype.category == INTEGER else count - 0.5
    return arange(
        start, start + behind * step, step, out=out, dtype=dtype, layout=layout,
        device=device, requires_grad=requires_grad,
    )  # fmt: skip


def typename(obj: Any, /) -> str:
    """The name of a type, or of the type of an object, with its module.

    >>> import flambeau
    >>> flambeau.typename(flambeau.ones(2)), flambeau.typename(3)
    ('flambeau.FloatTensor', 'int')
    """
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None)
    return named.__qualname__ if module in (None, "builtins") else f"{module}.{named.__qualname__}"


@function(method=True)
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> Any:
    """`split_with_sizes` with copies as parts."""
    return tuple(each.clone() for each in input.split_with_sizes(split_sizes, dim))


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule for another library's ``from_dlpack``, which today accepts the tensor itself."""
    return tensor.__dlpack__()


def set_default_tensor_type(t: Any, /) -> None:
    """`set_default_dtype` by the name of a tensor type, such as ``"flambeau.DoubleTensor"``.

    Args:
        t: A type such as `flambeau.DoubleTensor`, or its name, with or without a module.

    Raises:
        TypeError: There is no such type, or it is not of a floating point dtype.
    """
    name = t if isinstance(t, str) else getattr(t, "__name__", "")
    kinds = {name: each for each, name in TYPE_NAMES.items()}
    dtype = kinds.get(name.rpartition(".")[2])
    if dtype is None or not dtype.is_floating_point or ".cuda." in name:
        raise TypeError(
            f"set_default_tensor_type() takes CPU tensor types of a floating point dtype, got {t}; "
            "set_default_dtype() and set_default_device() say the same"
        )
    set_default_dtype(dtype)
