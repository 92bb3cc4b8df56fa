"""Sparse matrices with compressed rows or columns: CSR and CSC.

A compressed matrix is a sparse tensor in coordinate format with its values row by row (column by
column), and the start of each row. So it computes like a coordinate tensor; results of operators
that are not elementwise are in coordinate format.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.devices import layout as layouts
from flambeau.core.support import dtype as dtypes
from flambeau.core.values.pytree import OwnParts
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.known import known_values
from flambeau.ops.factories.factory import checked_dtype
from flambeau.ops.factories.from_data import tensor
from flambeau.ops.factories.ranges import arange
from flambeau.ops.reductions.sorting import argsort, searchsorted
from flambeau.ops.shapes.shape import stack
from flambeau.sparse.creation import coalesce, to_sparse
from flambeau.sparse.tensor import SparseTensor, is_known

__all__ = ["sparse_compressed_tensor", "sparse_csc_tensor", "sparse_csr_tensor"]

#: The dimension that is compressed in each layout.
_DIMENSIONS = {layouts.sparse_csr: 0, layouts.sparse_csc: 1}

_PARTS = OwnParts(
    lambda each: (
        (each._indices_, each._values_, each._starts_),
        (each._size_, each._coalesced_, each._layout_),
    ),
    lambda facts, parts: CompressedTensor.put_together(*parts, *facts),
    lambda each: False,
)


class CompressedTensor(SparseTensor, parts=_PARTS):
    """A matrix in the layout `flambeau.sparse_csr` or `flambeau.sparse_csc`.

    Attributes:
        _starts_: The start of each row (column) in the values, and the end of the last one.
        _layout_: The layout.
    """

    _starts_: Tensor
    _layout_: Any

    is_sparse = False
    is_sparse_csr: bool

    @staticmethod
    def put_together(
        indices: Tensor, values: Tensor, starts: Tensor, size: Any, coalesced: bool, layout: Any
    ) -> CompressedTensor:
        """A matrix of these components, which are not checked."""
        result: CompressedTensor = object.__new__(CompressedTensor)
        filled = SparseTensor.of(indices, values, size, coalesced)
        result._indices_, result._values_ = filled._indices_, filled._values_
        result._size_, result._coalesced_ = filled._size_, filled._coalesced_
        result._starts_, result._layout_ = starts, layout
        result.is_sparse_csr = layout is layouts.sparse_csr
        return result

    def with_values(self, values: Tensor) -> CompressedTensor:
        """Other values at the same positions."""
        facts = self._starts_, self._size_, self._coalesced_, self._layout_
        return CompressedTensor.put_together(self._indices_, values, *facts)

    def beside(self, values: Tensor) -> CompressedTensor:
        """Other values, perhaps on another device, at the same positions."""
        where = values.device
        facts = self._starts_.to(where), self._size_, self._coalesced_, self._layout_
        return CompressedTensor.put_together(self._indices_.to(where), values, *facts)

    @property
    def layout(self) -> Any:
        """The layout of this matrix."""
        return self._layout_

    def values(self) -> Tensor:
        """The elements, row by row or column by column."""
        return self._values_

    def is_coalesced(self) -> bool:
        """Raise an error, as in PyTorch: it is not a tensor in coordinate format.

        Raises:
            RuntimeError: Always.
        """
        raise _wrong("is_coalesced", self)

    def indices(self) -> Tensor:
        """Raise an error, as in PyTorch: it is not a tensor in coordinate format.

        Raises:
            RuntimeError: Always.
        """
        raise _wrong("indices", self)

    def crow_indices(self) -> Tensor:
        """The start of each row in the values: ``(rows + 1,)``.

        Raises:
            RuntimeError: The columns are compressed.
        """
        return self._of(layouts.sparse_csr, "crow_indices", self._starts_)

    def col_indices(self) -> Tensor:
        """The column of each value.

        Raises:
            RuntimeError: The columns are compressed.
        """
        return self._of(layouts.sparse_csr, "col_indices", self._indices_[1])

    def ccol_indices(self) -> Tensor:
        """The start of each column in the values: ``(columns + 1,)``.

        Raises:
            RuntimeError: The rows are compressed.
        """
        return self._of(layouts.sparse_csc, "ccol_indices", self._starts_)

    def row_indices(self) -> Tensor:
        """The row of each value.

        Raises:
            RuntimeError: The rows are compressed.
        """
        return self._of(layouts.sparse_csc, "row_indices", self._indices_[0])

    def _of(self, layout: Any, name: str, found: Tensor) -> Tensor:
        if self._layout_ is not layout:
            raise _wrong(name, self)
        return found

    def _shown_parts(self) -> list[tuple[str, Tensor]]:
        names = ("crow", "col") if self.is_sparse_csr else ("ccol", "row")
        along = self._indices_[1 - _DIMENSIONS[self._layout_]]
        shown = [(f"{names[0]}_indices", self._starts_), (f"{names[1]}_indices", along)]
        return [*shown, ("values", self._values_)]

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        facts = tuple(self._size_), self._coalesced_, self._layout_
        parts = self._indices_, self._values_, self._starts_
        return CompressedTensor.put_together, (*parts, *facts)


def _wrong(name: str, found: Tensor) -> RuntimeError:
    return RuntimeError(f"{name} is not there for a tensor of layout {found.layout}")


def to_compressed(input: Tensor, layout: Any) -> CompressedTensor:
    """A matrix, dense or sparse, with its rows or its columns compressed.

    Raises:
        RuntimeError: It is not a matrix of numbers.
        TracedValueError: A program is being compiled, and the matrix is dense or not coalesced.
    """
    if isinstance(input, CompressedTensor) and input._layout_ is layout:
        return input
    if input.ndim != 2:
        raise RuntimeError(f"{layout} is for matrices, got shape {list(input.shape)}")
    found = coalesce(to_coo(input))
    if found.dense_dim():
        raise RuntimeError(f"{layout} is for matrices of numbers, got dense dimensions")
    dim = _DIMENSIONS[layout]
    indices, values = found._indices_, found._values_
    if dim:
        order = argsort(indices[1], stable=True)
        indices, values = indices[:, order], values[order]
    starts = searchsorted(indices[dim].contiguous(), arange(found.shape[dim] + 1))
    facts = tuple(found.shape), not dim, layout
    return CompressedTensor.put_together(indices, values, starts, *facts)


def to_coo(input: Tensor) -> SparseTensor:
    """The tensor in coordinate format."""
    if not isinstance(input, CompressedTensor):
        return to_sparse(input)
    return SparseTensor.of(input._indices_, input._values_, input._size_, input._coalesced_)


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> CompressedTensor:  # fmt: skip
    """A matrix of zeros with some ``values``, row by row or column by column.

    Args:
        compressed_indices: The start of each row (column), and the end of the last one.
        plain_indices: The column (row) of each value.
        values: The elements, ``(nnz,)``; gradients flow to them.
        size: The shape; by default just large enough.
        dtype: The type of the values, by default their own.
        layout: `flambeau.sparse_csr` or `flambeau.sparse_csc`.
        device: The device, by default that of the values.
        pin_memory: Accepted for compatibility.
        requires_grad: Make it a leaf of the tape, if ``values`` do not require grad themselves.
        check_invariants: Accepted: the indices are always checked if they are known.

    Raises:
        NotImplementedError: ``layout`` is another one, or there is a batch of matrices.
        RuntimeError: The parts do not fit each other.
    """
    if layout not in _DIMENSIONS:
        raise NotImplementedError(
            f"sparse_compressed_tensor(): layout must be sparse_csr or sparse_csc, got {layout}"
        )
    dim = _DIMENSIONS[layout]
    dtype = checked_dtype("sparse_compressed_tensor", dtype)
    elements = values if isinstance(values, Tensor) else tensor(values)
    elements = elements.to(device=device, dtype=dtype) if dtype or device else elements
    starts, along = (
        (each if isinstance(each, Tensor) else tensor(each, dtype=dtypes.int64)).to(elements.device)
        for each in (compressed_indices, plain_indices)
    )
    if starts.ndim != 1 or along.ndim != 1 or elements.ndim != 1:
        raise NotImplementedError(
            f"{layout}: the indices and the values of one matrix are vectors, got shapes "
            f"{list(starts.shape)}, {list(along.shape)} and {list(elements.shape)}"
        )
    if len(along) != len(elements) or not len(starts):
        raise RuntimeError(
            f"{layout}: there must be as many plain indices as values, got {len(along)} and "
            f"{len(elements)}, and compressed indices for each row or column and one more"
        )
    count = len(starts) - 1
    if size is None:
        known = known_values("sparse_compressed_tensor", along, "give its size")
        width = int(known.max(initial=-1)) + 1
        size = (width, count) if dim else (count, width)
    if size[dim] != count:
        raise RuntimeError(
            f"{layout}: size {list(size)} needs {size[dim] + 1} compressed indices, got {count + 1}"
        )
    _check(starts, along, len(elements), size[1 - dim], layout)
    numbers = arange(len(elements), device=elements.device)
    across = searchsorted(starts[1:].contiguous(), numbers, right=True)
    along = along.to(across.dtype)
    indices = stack([along, across] if dim else [across, along])
    elements = elements.view_as(elements)
    if requires_grad and not elements.requires_grad:
        elements = elements.detach().requires_grad_()
    facts = tuple(size), not dim, layout
    return CompressedTensor.put_together(indices, elements, starts, *facts)


def _check(starts: Tensor, along: Tensor, count: int, width: int, layout: Any) -> None:
    """Check the indices if they are available."""
    if not (is_known(starts) and is_known(along)) or starts.device.type != "cpu":
        return
    known, positions = starts.numpy(), along.numpy()
    if known[0] != 0 or known[-1] != count or (known[1:] < known[:-1]).any():
        raise RuntimeError(
            f"{layout}: compressed indices must go from 0 to the number of values, {count}, and "
            f"never fall, got {known.tolist()!s:.200}"
        )
    if count and not 0 <= positions.min() <= positions.max() < width:
        raise RuntimeError(
            f"{layout}: plain indices must be from 0 to {width - 1}, got {positions.min()} to "
            f"{positions.max()}"
        )


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None, layout: Any = layouts.sparse_csr,
) -> CompressedTensor:  # fmt: skip
    """A matrix in CSR; see `sparse_compressed_tensor`.

    >>> import flambeau
    >>> x = flambeau.sparse_csr_tensor([0, 1, 3], [1, 0, 1], [2.0, 3.0, 4.0])
    >>> x.to_dense()
    tensor([[0., 2.],
            [3., 4.]])
    >>> (x @ flambeau.ones(2, 1)).tolist()
    [[2.0], [7.0]]
    """
    return sparse_compressed_tensor(
        crow_indices, col_indices, values, size, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None, layout: Any = layouts.sparse_csc,
) -> CompressedTensor:  # fmt: skip
    """A matrix in CSC; see `sparse_compressed_tensor`."""
    return sparse_compressed_tensor(
        ccol_indices, row_indices, values, size, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip
