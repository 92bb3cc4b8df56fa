"""Views with another order of dimensions: `permute`, `transpose`, `T`, `movedim`, …"""

from __future__ import annotations

from typing import Any

from flambeau.core.operators.op import function
from flambeau.core.operators.viewing import become_view, make_view
from flambeau.core.support.warning import warn
from flambeau.core.values.steps import Permute
from flambeau.core.values.tensor import Tensor
from flambeau.ops.common.checks import wrap_dim
from flambeau.ops.common.dims import sizes_of, wrap_listed

__all__ = ["adjoint", "moveaxis", "movedim", "permute", "swapaxes", "swapdims", "t", "transpose"]


@function(method=True)
def permute(input: Tensor, *order: Any, dims: Any = None) -> Any:
    """Dimensions in another order: result dimension ``i`` is input dimension ``order[i]``.

    Raises:
        RuntimeError: A dimension occurs twice in the order, or not at all.
        IndexError: A dimension is out of range.
    """
    given, ndim = sizes_of(order, "permute", dims), input.ndim
    if len(given) != ndim:
        raise RuntimeError(
            f"permute(): {len(given)} dimensions {list(given)} were given for a tensor with {ndim}"
        )
    return make_view(input, Permute(wrap_listed(given, ndim, "permute")), "permute")


def _swapping(source: Tensor, dim0: Any, dim1: Any, name: str) -> Any:
    ndim = source.ndim
    first, second = wrap_dim(dim0, ndim, name), wrap_dim(dim1, ndim, name)
    dims = list(range(ndim))
    if ndim:
        dims[first], dims[second] = dims[second], dims[first]
    return Permute(tuple(dims))


@function(method=True)
def transpose(input: Tensor, dim0: Any, dim1: Any) -> Any:
    """Dimensions ``dim0`` and ``dim1`` exchanged.

    Raises:
        IndexError: A dimension is out of range.
    """
    return make_view(input, _swapping(input, dim0, dim1, "transpose"), "transpose")


@function(method=True)
def transpose_(self: Tensor, dim0: Any, dim1: Any) -> Any:
    """`transpose`, in place: this tensor takes the new order."""
    return become_view(self, _swapping(self, dim0, dim1, "transpose_"), "transpose")


Tensor.swapaxes_ = Tensor.swapdims_ = transpose_


@function(method=True)
def swapaxes(input: Tensor, axis0: Any, axis1: Any) -> Any:
    """`transpose` under NumPy's name."""
    return make_view(input, _swapping(input, axis0, axis1, "swapaxes"), "transpose")


@function(method=True)
def swapdims(input: Tensor, dim0: Any, dim1: Any) -> Any:
    """`transpose` under another name."""
    return make_view(input, _swapping(input, dim0, dim1, "swapdims"), "transpose")


@function(method=True)
def t(input: Tensor) -> Any:
    """The transpose of a matrix; vectors and 0-d tensors unchanged.

    Raises:
        RuntimeError: There are more than two dimensions.
    """
    return make_view(input, _transposing(input, "t"), "t")


@function(method=True)
def t_(self: Tensor) -> Any:
    """`t`, in place: this tensor is transposed."""
    return become_view(self, _transposing(self, "t_"), "t")


def _transposing(source: Tensor, name: str) -> Permute:
    ndim = source.ndim
    if ndim > 2:
        raise RuntimeError(
            f"{name}() takes tensors with at most 2 dimensions, this one has {ndim}; "
            "use transpose() or mT"
        )
    return Permute(tuple(range(ndim))[::-1])


def _get_T(self: Tensor) -> Any:
    """All dimensions in reverse order; PyTorch deprecates it unless there are two dimensions."""
    if self.ndim not in (0, 2):
        warn(
            f"T of a tensor with {self.ndim} dimensions is deprecated; use mT to transpose "
            "matrices, or permute() to reverse all dimensions",
            UserWarning,
        )
    return make_view(self, Permute(tuple(range(self.ndim))[::-1]), "permute")


def _matrix_dims(source: Tensor, name: str) -> Permute:
    ndim = source.ndim
    if ndim == 1:
        raise RuntimeError(f"{name} needs a matrix or a batch of them, this tensor has 1 dimension")
    return _swapping(source, -2, -1, name) if ndim else Permute(())


def _get_mT(self: Tensor) -> Any:
    """The last two dimensions exchanged."""
    return make_view(self, _matrix_dims(self, "mT"), "transpose")


def _conjugated(transposed: Tensor) -> Any:
    return transposed.conj() if transposed.is_complex() else transposed


def _get_H(self: Tensor) -> Any:
    """The conjugate transpose of a matrix."""
    if self.ndim not in (0, 2):
        raise RuntimeError(f"H needs a matrix, this tensor has {self.ndim} dimensions; use mH")
    return _conjugated(make_view(self, _matrix_dims(self, "H"), "transpose"))


def _get_mH(self: Tensor) -> Any:
    """The conjugate transpose of the last two dimensions."""
    return _conjugated(make_view(self, _matrix_dims(self, "mH"), "transpose"))


for _name, _getter in (("T", _get_T), ("mT", _get_mT), ("H", _get_H), ("mH", _get_mH)):
    setattr(Tensor, _name, property(function(_getter)))


@function(method=True)
def adjoint(input: Tensor) -> Any:
    """The conjugate transpose of the last two dimensions."""
    return _conjugated(make_view(input, _matrix_dims(input, "adjoint"), "transpose"))


@function(method=True)
def movedim(input: Tensor, source: Any, destination: Any) -> Any:
    """Dimension ``source`` moved to ``destination``, with the others in their order.

    Args:
        source: A dimension or a tuple of them.
        destination: The new positions, as many as in ``source``.

    Raises:
        RuntimeError: The numbers differ, or a dimension is named twice.
        IndexError: A dimension is out of range.
    """
    return make_view(input, _moving(input, source, destination, "movedim"), "permute")


@function(method=True)
def moveaxis(input: Tensor, source: Tensor, destination: Any) -> Any:
    """`movedim` under NumPy's name."""
    return make_view(input, _moving(input, source, destination, "moveaxis"), "permute")


def _moving(tensor: Tensor, source: Any, destination: Any, name: str) -> Permute:
    sources = tuple(source) if isinstance(source, list | tuple) else (source,)
    targets = tuple(destination) if isinstance(destination, list | tuple) else (destination,)
    ndim = tensor.ndim
    if len(sources) != len(targets):
        raise RuntimeError(
            f"{name}(): {len(sources)} source dimensions {list(sources)} cannot move to "
            f"{len(targets)} destinations {list(targets)}"
        )
    moved_from, moved_to = wrap_listed(sources, ndim, name), wrap_listed(targets, ndim, name)
    if not ndim:
        return Permute(())
    at = dict(zip(moved_to, moved_from, strict=True))
    others = iter([d for d in range(ndim) if d not in moved_from])
    return Permute(tuple([at[d] if d in at else next(others) for d in range(ndim)]))
