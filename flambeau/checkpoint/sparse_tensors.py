"""Sparse tensors in PyTorch's files: a layout and the component tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.checkpoint.errors import RefusedContentError
from flambeau.core.devices.layout import layout, sparse_coo, sparse_csc, sparse_csr
from flambeau.core.values.tensor import Size, Tensor
from flambeau.sparse.compressed import CompressedTensor, sparse_compressed_tensor
from flambeau.sparse.creation import sparse_coo_tensor
from flambeau.sparse.tensor import SparseTensor, host, is_known

__all__: list[str] = []


def parts_of(tensor: SparseTensor) -> tuple[Any, ...]:
    """The components of a sparse tensor in the form that files hold."""
    if not isinstance(tensor, CompressedTensor):
        return tensor._indices_, tensor._values_, tensor.shape, tensor.is_coalesced()
    plain = tensor._indices_[1 if tensor.layout is sparse_csr else 0].clone()
    return tensor._starts_, plain, tensor._values_, tensor.shape


def component_names(kind: Any) -> tuple[str, ...]:
    """The names of `parts_of` for a layout, as PyTorch's methods have them."""
    rows = ("crow_indices", "col_indices"), ("ccol_indices", "row_indices")
    of = {sparse_coo: ("indices",), sparse_csr: rows[0], sparse_csc: rows[1]}
    if type(kind) is not layout or kind not in of:
        raise RefusedContentError(f"a sparse tensor of layout {kind!s:.80}, which no tensor has")
    return (*of[kind], "values", "size")


def put_together(kind: Any, parts: Any) -> SparseTensor:
    """The sparse tensor of components from a file, which are checked.

    Args:
        kind: Its layout.
        parts: The result of `parts_of`; older files do not record whether a tensor is coalesced.

    Raises:
        RefusedContentError: The layout is not supported, or the parts do not fit each other.
        TypeError: They are no tensors and sizes.
    """
    if type(kind) is not layout or type(parts) is not tuple:
        raise TypeError("a sparse tensor is described by a layout and its parts")
    if kind not in (sparse_coo, sparse_csr, sparse_csc):
        raise RefusedContentError(f"a tensor of layout {kind}, which no tensor here can have")
    count = 2 if kind is sparse_coo else 3
    *tensors, size = parts[: count + 1] or (None,)
    fits = len(tensors) == count and all(type(each) is Tensor for each in tensors)
    if not fits or not isinstance(size, Size | tuple):
        raise TypeError("the parts of a sparse tensor are dense tensors and sizes")
    try:
        if kind is not sparse_coo:
            starts, plain, values = tensors
            return sparse_compressed_tensor(starts, plain, values, size, layout=kind)
        indices, values = tensors
        found = sparse_coo_tensor(indices, values, size)
        coalesced = parts[3:] == (True,)
        if coalesced and is_known(found._indices_) and not _in_order(host(found._indices_)):
            raise RefusedContentError("the positions of a coalesced sparse tensor are not in order")
        return SparseTensor.of(found._indices_, found._values_, found._size_, coalesced)
    except RefusedContentError:
        raise
    except (RuntimeError, ValueError, IndexError) as error:
        raise RefusedContentError(f"the parts of a sparse tensor do not fit: {error}") from None


def _in_order(positions: np.ndarray) -> bool:
    """Whether the indices are in increasing order."""
    before, after = positions[:, :-1], positions[:, 1:]
    differ = before != after
    if not before.size:
        return before.shape[1] == 0
    first = differ.argmax(0), np.arange(before.shape[1])
    return bool((differ.any(0) & (before[first] < after[first])).all())
