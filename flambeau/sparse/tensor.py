"""The sparse tensor: the positions and values of some elements; all others are zero."""

from __future__ import annotations

import copy
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import numpy as np
from jax.core import Tracer

from flambeau.core.devices import layout
from flambeau.core.support import dtype as dtypes
from flambeau.core.support import format, naming
from flambeau.core.support.higher import higher
from flambeau.core.support.modes import modes
from flambeau.core.values.attributes import WithoutFields
from flambeau.core.values.pytree import OwnParts
from flambeau.core.values.tensor import Size, Tensor

__all__ = ["SparseTensor"]


# The flatten functions for compiled functions and JAX's trees.
_PARTS = OwnParts(
    lambda each: ((each._indices_, each._values_), (each._size_, each._coalesced_)),
    lambda facts, parts: SparseTensor.of(*parts, *facts),
    lambda each: False,
)


class SparseTensor(WithoutFields, Tensor, parts=_PARTS):
    """A tensor in coordinate format (COO).

    Gradients flow to `_values_`, which determines whether this tensor requires grad, and its node.

    Attributes:
        _indices_: The positions, ``(sparse_dim, nnz)``, integers; never changed.
        _values_: The values at the positions, ``(nnz, *dense sizes)``. Duplicates are summed.
        _size_: The shape.
        _coalesced_: Whether the positions are sorted and unique.
    """

    _indices_: Tensor
    _values_: Tensor
    _size_: Size
    _coalesced_: bool

    is_sparse = True

    # A trace follows the attributes of tensors from outside; these are never set again.
    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__
        __setattr__ = object.__setattr__

    @staticmethod
    def of(
        indices: Tensor, values: Tensor, size: tuple[int, ...], is_coalesced: bool = False
    ) -> SparseTensor:
        """A tensor of these components, which are not checked."""
        alias = object.__new__(SparseTensor)
        alias._indices_, alias._values_ = indices, values
        alias._size_, alias._coalesced_ = Size(size), is_coalesced
        return alias

    def with_values(self, values: Tensor) -> SparseTensor:
        """Other values at the same positions."""
        return SparseTensor.of(self._indices_, values, self._size_, self._coalesced_)

    def beside(self, values: Tensor) -> SparseTensor:
        """Other values, perhaps on another device, at the same positions."""
        indices = self._indices_.to(values.device)
        return SparseTensor.of(indices, values, self._size_, self._coalesced_)

    @classmethod
    def __torch_function__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Compute ``func`` by its rule."""
        return higher("flambeau.sparse.rules.run")(func, args, kwargs or {})

    # Known facts

    @property
    def shape(self) -> Size:
        """The size of every dimension."""
        return self._size_

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of dimension ``dim``."""
        return self._size_ if dim is None else self._size_[dim]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._size_)

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self._size_)

    ndimension = dim

    def sparse_dim(self) -> int:
        """The number of sparse dimensions, the leading ones."""
        return self._indices_.shape[0]

    def dense_dim(self) -> int:
        """The number of dense dimensions, those of each of the `values`."""
        return self._values_.ndim - 1

    def numel(self) -> int:
        """The number of elements, zeros included."""
        return self._size_.numel()

    nelement = numel

    def __len__(self) -> int:
        if not self._size_:
            raise TypeError("len() of a 0-d tensor")
        return self._size_[0]

    @property
    def dtype(self) -> dtypes.dtype:
        """The type of the values."""
        return self._values_.dtype

    @property
    def device(self) -> Any:
        """The device of the values."""
        return self._values_.device

    @property
    def layout(self) -> Any:
        """`flambeau.sparse_coo`."""
        return layout.sparse_coo

    @property
    def is_meta(self) -> bool:
        """Whether the values have a shape and dtype only."""
        return self._values_.is_meta

    # Its parts

    def indices(self) -> Tensor:
        """The positions of the elements, ``(sparse_dim, nnz)``, sorted.

        Raises:
            RuntimeError: The tensor is not coalesced.
        """
        self._require_coalesced("indices")
        return self._indices_

    def values(self) -> Tensor:
        """The elements at the positions in `indices`.

        Raises:
            RuntimeError: The tensor is not coalesced.
        """
        self._require_coalesced("values")
        return self._values_

    def _indices(self) -> Tensor:
        """The positions, perhaps with duplicates."""
        return self._indices_

    def _values(self) -> Tensor:
        """The values, outside the tape, perhaps for duplicate positions."""
        return self._values_.detach()

    def _nnz(self) -> int:
        """The number of stored positions."""
        return self._indices_.shape[1]

    def is_coalesced(self) -> bool:
        """Whether the positions are sorted and unique."""
        return self._coalesced_

    def _require_coalesced(self, subject: str) -> None:
        if not self._coalesced_:
            raise RuntimeError(
                f"Cannot get {subject} on an uncoalesced tensor, please call .coalesce() first; "
                f"_{subject}() gives them as they are"
            )

    # The tape

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the values."""
        return self._values_.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._values_.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Set whether gradients flow to this leaf."""
        self._values_.requires_grad_(requires_grad)
        return self

    @property
    def grad_fn(self) -> Any:
        """The node that made the values."""
        return self._values_.grad_fn

    @property
    def is_leaf(self) -> bool:
        """Whether the values were not computed by a recorded operator."""
        return self._values_.is_leaf

    @property
    def grad(self) -> Any:
        """The accumulated gradient of a leaf: a sparse tensor with the same positions.

        PyTorch returns a dense gradient for some operators.
        """
        found = self._values_.grad
        return None if found is None else self.with_values(found)

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None and not isinstance(value, SparseTensor):
            raise RuntimeError("the grad of a sparse tensor must be sparse, or None")
        self._values_.grad = None if value is None else value._values_

    @grad.deleter
    def grad(self) -> None:
        self._values_.grad = None

    @property
    def data(self) -> SparseTensor:
        """The same elements, outside the tape."""
        return self.detach()

    @data.setter
    def data(self, other: Tensor) -> None:
        self.refuse("setting data")

    def detach(self) -> SparseTensor:
        """The same elements, outside the tape."""
        return self.with_values(self._values_.detach())

    def is_floating_point(self) -> bool:
        """Whether the dtype is a real floating point type."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative values."""
        return self.dtype.is_signed

    # Python

    def _shown_parts(self) -> list[tuple[str, Tensor]]:
        return [("indices", self._indices_), ("values", self._values_)]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return _text(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> SparseTensor:
        return memo.setdefault(id(self), self.with_values(copy.deepcopy(self._values_, memo)))

    def __copy__(self) -> SparseTensor:
        return self.with_values(copy.copy(self._values_))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        if naming.package == "torch":
            rebuild = import_module("torch._utils")._rebuild_sparse_tensor
            parts = self._indices_, self._values_, self._size_, self._coalesced_
            return rebuild, (self.layout, parts)
        return SparseTensor.of, (
            self._indices_, self._values_, tuple(self._size_), self._coalesced_,
        )  # fmt: skip

    @property
    def _cell(self) -> Any:  # type: ignore[override]
        # Code that reads the Cell expects a dense tensor.
        self.refuse("this operation")

    def refuse(self, name: str) -> NoReturn:
        """Raise an error: ``name`` has no sparse implementation.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            f"{name} does not take a sparse tensor ({naming.package}.sparse_coo), here one of "
            f"shape {list(self._size_)}; call to_dense() first, or compute with its values()"
        )


def _text(tensor: SparseTensor) -> str:
    """The text for ``repr``."""
    opening = "tensor("
    parts = []
    for name, part in tensor._shown_parts():
        start = f"{name}=tensor("
        array = None if part.is_meta else part._shown_value()
        indent = len(opening) + len(start)
        inner = "..." if array is None else format.format_array(array, indent=indent)
        if not part.numel() and (name != "values" or part.shape):
            inner += f", size={tuple(part.shape)}"
        parts.append(f"{start}{inner})")
    facts = [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    if tensor.device.type != "cpu":
        facts.insert(0, f"device='{tensor.device}'")
    implied = (dtypes.get_default_dtype(), dtypes.int64, dtypes.bool)
    if tensor.dtype not in implied or (not tensor._nnz() and tensor.dtype is not implied[0]):
        facts.append(f"dtype={tensor.dtype}")
    facts.append(f"layout={tensor.layout}")
    if tensor.grad_fn is not None:
        facts.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        facts.append("requires_grad=True")
    gap = ",\n" + " " * len(opening)
    text = opening + gap.join(parts)
    return format.with_suffixes(text, facts, indent=len(opening), starts_line=tensor.is_sparse)


def is_known(tensor: Tensor) -> bool:
    """Whether the elements of a dense tensor are available: no running trace, not on meta."""
    array = None if modes.trace is not None else tensor._read()
    return isinstance(array, jax.Array) and not isinstance(array, Tracer)


def host(tensor: Tensor) -> np.ndarray:
    """The elements of a dense tensor that `is_known`."""
    return np.asarray(tensor._read())
