"""Sparse tensors in coordinate format, for graphs and embeddings.

A sparse tensor is a subclass of Tensor made of positions, which never change, and values. It
overrides functions by ``__torch_function__``, so ordinary tensors pay nothing for it; one table
(`rules.py`) has the rule of each operator. May import `core` and `ops`.
"""

from flambeau._absent import Absent as _Absent
from flambeau.sparse import methods as _methods  # noqa: F401 (methods of Tensor)
from flambeau.sparse.legacy import (
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from flambeau.sparse.products import addmm, mm
from flambeau.sparse.reductions import log_softmax, softmax, sum

__all__ = [
    "BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor", "addmm", "log_softmax", "mm", "softmax", "sum",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)
