"""Constructors of sparse tensors named for a dtype, for older programs with graphs."""

from __future__ import annotations

from typing import Any

from flambeau.core.support import dtype as dtypes
from flambeau.core.support import naming
from flambeau.core.support.dtype import dtype
from flambeau.ops.factories.conversion import TYPE_NAMES
from flambeau.sparse.creation import sparse_coo_tensor
from flambeau.sparse.tensor import SparseTensor

__all__ = [
    "BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip


class _SparseType(type):
    """A class whose instances are the sparse tensors with the right dtype."""

    dtype: dtype

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, SparseTensor) and instance.dtype is cls.dtype

    def __call__(cls, *args: Any) -> SparseTensor:
        if all(isinstance(each, int) for each in args):
            return sparse_coo_tensor(args or (0,), dtype=cls.dtype)
        return sparse_coo_tensor(*args)

    def __repr__(cls) -> str:
        return f"<class '{naming.package}.sparse.{cls.__name__}'>"


def _sparse_type(of: dtype) -> _SparseType:
    doc = f"""``(indices, values, size)``, or ``(*sizes)`` for zeros of {of.name}.

    A sparse tensor is an instance of it if it has that dtype. New code calls `sparse_coo_tensor`.
    """
    return _SparseType(TYPE_NAMES[of], (), {"dtype": of, "__doc__": doc})


BFloat16Tensor: _SparseType = _sparse_type(dtypes.bfloat16)
ByteTensor: _SparseType = _sparse_type(dtypes.uint8)
CharTensor: _SparseType = _sparse_type(dtypes.int8)
DoubleTensor: _SparseType = _sparse_type(dtypes.float64)
FloatTensor: _SparseType = _sparse_type(dtypes.float32)
HalfTensor: _SparseType = _sparse_type(dtypes.float16)
IntTensor: _SparseType = _sparse_type(dtypes.int32)
LongTensor: _SparseType = _sparse_type(dtypes.int64)
ShortTensor: _SparseType = _sparse_type(dtypes.int16)
