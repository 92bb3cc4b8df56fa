"""Sparse tensors in coordinate format, as graphs and embeddings need them."""

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
