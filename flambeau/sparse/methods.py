"""The methods of sparse tensors, and their counterparts on dense tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from flambeau.core.devices.layout import sparse_coo, sparse_csc, sparse_csr
from flambeau.core.values.tensor import Tensor, method
from flambeau.sparse import compressed, creation
from flambeau.sparse.tensor import SparseTensor

__all__: list[str] = []


@method
def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: Any = None) -> SparseTensor:
    """See `creation.to_sparse`.

    Raises:
        NotImplementedError: ``layout`` is not supported.
    """
    if layout in (sparse_csr, sparse_csc):
        return compressed.to_compressed(self, layout)
    if layout not in (None, sparse_coo):
        raise NotImplementedError(
            "to_sparse(): the sparse layouts are sparse_coo, sparse_csr and sparse_csc, got "
            f"{layout}"
        )
    if isinstance(self, SparseTensor):
        return compressed.to_coo(self)
    return creation.to_sparse(self, sparse_dim)


@method
def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """A matrix with its rows compressed; see `compressed.to_compressed`."""
    _only_numbers("to_sparse_csr", dense_dim)
    return compressed.to_compressed(self, sparse_csr)


@method
def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> SparseTensor:
    """A matrix with its columns compressed; see `compressed.to_compressed`."""
    _only_numbers("to_sparse_csc", dense_dim)
    return compressed.to_compressed(self, sparse_csc)


def _only_numbers(name: str, dense_dim: int | None) -> None:
    if dense_dim:
        raise NotImplementedError(f"{name}(): dense_dim must be 0, got {dense_dim}")


@method
def to_sparse_coo(self: Tensor) -> SparseTensor:
    """`to_sparse` in all dimensions."""
    return compressed.to_coo(self)


@method
def coalesce(self: Tensor) -> SparseTensor:
    """See `creation.coalesce`.

    Raises:
        RuntimeError: The tensor is dense.
    """
    if not isinstance(self, SparseTensor):
        _refuse("coalesce")
    return creation.coalesce(self)


@method
def sparse_mask(self: Tensor, mask: SparseTensor) -> SparseTensor:
    """The elements of a dense tensor at the positions of a sparse one of the same shape.

    Raises:
        RuntimeError: The shapes differ.
    """
    if self.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): self of shape {list(self.shape)} and mask of {list(mask.shape)} must "
            "have the same shape"
        )
    return mask.with_values(creation.taken(self, mask))


@method
def sparse_dim(self: Tensor) -> int:
    """The number of sparse dimensions: 0 for a dense tensor."""
    return 0


@method
def dense_dim(self: Tensor) -> int:
    """The number of dense dimensions: all dimensions for a dense tensor."""
    return self.ndim


def _sparse_only(name: str) -> Callable[..., Any]:
    def refused(self: Tensor) -> NoReturn:
        _refuse(name)

    refused.__name__ = refused.__qualname__ = name
    refused.__doc__ = f"See `SparseTensor.{name}`; an error for a dense tensor."
    return refused


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"{name} expected sparse coordinate tensor layout but got Strided; call to_sparse() first"
    )


for _name in (
    "indices", "values", "is_coalesced", "_indices", "_values", "_nnz", "crow_indices",
    "col_indices", "ccol_indices", "row_indices",
):  # fmt: skip
    method(_sparse_only(_name))


# Dense tensors have their own method, which returns the tensor itself.
SparseTensor.to_dense = creation.to_dense  # type: ignore[method-assign]
