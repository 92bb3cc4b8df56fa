"""Constructors named for a dtype, as in early PyTorch scripts."""

from __future__ import annotations

import functools
from typing import Any

from flambeau.core.support import dtype as dtypes
from flambeau.core.support import naming
from flambeau.core.support.dtype import dtype
from flambeau.core.values.attributes import handle_on
from flambeau.core.values.cell import Cell
from flambeau.core.values.convert import legacy_array
from flambeau.core.values.tensor import Tensor
from flambeau.ops.factories.conversion import TYPE_NAMES

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip


class _TensorType(type):
    """A class whose instances are the tensors with the right dtype."""

    dtype: dtype
    is_cuda: bool

    def __instancecheck__(cls, instance: Any) -> bool:
        is_one = isinstance(instance, Tensor) and instance.dtype is cls.dtype
        return is_one and instance.is_cuda is cls.is_cuda

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        if len(args) == 1 and isinstance(args[0], Tensor):
            return cls._alias(args[0])
        array = legacy_array(args, kwargs, cls.dtype, cls.__name__)
        result = handle_on(Cell(array), Tensor)
        return result.cuda() if cls.is_cuda else result

    def _alias(cls, source: Tensor) -> Tensor:
        if source.dtype is not cls.dtype:
            raise TypeError(
                f"{cls.__name__}() takes {cls.dtype} tensors, got {source.dtype}; use to()"
            )
        return source.as_subclass(Tensor)

    def __repr__(cls) -> str:
        return f"<class '{naming.package}{'.cuda' if cls.is_cuda else ''}.{cls.__name__}'>"


def _tensor_type(of: dtype, is_cuda: bool = False) -> _TensorType:
    doc = f"""``(*sizes)`` or ``(data)``: a {of.name} tensor of that shape, or with those elements.

    A tensor is an instance of it if it has that dtype. New code says ``dtype=flambeau.{of.name}``.
    """
    return _TensorType(TYPE_NAMES[of], (), {"dtype": of, "is_cuda": is_cuda, "__doc__": doc})


BFloat16Tensor: _TensorType = _tensor_type(dtypes.bfloat16)
BoolTensor: _TensorType = _tensor_type(dtypes.bool)
ByteTensor: _TensorType = _tensor_type(dtypes.uint8)
CharTensor: _TensorType = _tensor_type(dtypes.int8)
DoubleTensor: _TensorType = _tensor_type(dtypes.float64)
FloatTensor: _TensorType = _tensor_type(dtypes.float32)
HalfTensor: _TensorType = _tensor_type(dtypes.float16)
IntTensor: _TensorType = _tensor_type(dtypes.int32)
LongTensor: _TensorType = _tensor_type(dtypes.int64)
ShortTensor: _TensorType = _tensor_type(dtypes.int16)


@functools.cache
def on_cuda(name: str) -> _TensorType:
    """The class of the same name in `flambeau.cuda`, for tensors on a GPU."""
    return _tensor_type(globals()[name].dtype, is_cuda=True)
