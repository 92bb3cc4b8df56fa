"""The memory of Cells, as other libraries see it: addresses, and NumPy arrays on the elements.

A JAX array never changes, so `Tensor.numpy` lends memory of its own. While an array on that memory
is alive, the memory is the value of the Cell: the Cell is a `LentCell`, which looks for changes
whenever it is read, and copies what is written to it into the memory.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jax.sharding import SingleDeviceSharding

from flambeau.core.programs.deferred import ARRAYS, computed
from flambeau.core.programs.finishing import alone
from flambeau.core.support.jax_private import ArrayImpl
from flambeau.core.support.warning import warn
from flambeau.core.types import Contents
from flambeau.core.values.cell import Cell, is_abstract
from flambeau.core.values.strides import contiguous_strides, layout_of
from flambeau.core.values.upload import upload
from flambeau.core.values.view import View

# Comparing this many bytes takes a second or two.
_MUCH = 8 * 2**30


def lent(cell: Cell, view: View | None) -> np.ndarray | None:
    """A NumPy array that shares the elements of a Cell, or of a view of it.

    Returns:
        The array; ``None`` if the elements are not on one CPU device, if they are not known, or if
        the view has no strides (``x.t().view(-1)``).
    """
    return alone(_lend, cell, view)


def _lend(cell: Cell, view: View | None) -> np.ndarray | None:
    array = computed(cell.array)
    if not _is_lendable(array):
        return None
    shape, dtype = array.shape, array.dtype
    strides, offset = contiguous_strides(shape), 0
    if view is not None:
        layout = layout_of(view, shape, dtype)
        if layout is None:
            return None
        strides, offset = layout
        shape, dtype = view.shape, np.dtype(view.numpy_dtype)
    if 0 in shape:
        return np.empty(shape, dtype)
    if not isinstance(cell, LentCell):
        # In the place of a deferred one.
        cell.array = array
        cell.loan = _Loan(array)
        cell.__class__ = LentCell
    steps = [each * dtype.itemsize for each in strides]
    return np.ndarray(shape, dtype, cell.loan.memory_for(cell), offset, steps)


def _is_lendable(array: object) -> bool:
    return (
        type(array) is ArrayImpl
        and type(array.sharding) is SingleDeviceSharding
        and next(iter(array.sharding.device_set)).platform == "cpu"
    )


class _Holder:
    """The common base of the NumPy arrays on one memory, which they keep alive."""

    __slots__ = ("__array_interface__", "__weakref__", "elements")

    def __init__(self, elements: np.ndarray) -> None:
        self.elements = elements
        self.__array_interface__ = elements.reshape(-1).view(np.uint8).__array_interface__


class _Loan:
    """The memory that a Cell shares with NumPy arrays.

    Args:
        array: The value of the Cell.

    Attributes:
        elements: The memory, in the form of the Cell's value.
        array: The value of the Cell, equal to the memory when they were compared last.
        holder: Gives what the NumPy arrays keep alive, or ``None`` if there are none left.
    """

    # The bytes that reads have compared, of all tensors.
    compared = 0
    holder: Callable[[], _Holder | None] = staticmethod(lambda: None)

    def __init__(self, array: jax.Array) -> None:
        self.elements = np.array(array, order="C")
        self.array = array

    def memory_for(self, cell: LentCell) -> np.ndarray:
        """The bytes of the memory, for the NumPy arrays that ``cell`` shares it with."""
        holder = self.holder()
        if holder is None:
            holder = _Holder(self.elements)
            self.holder = weakref.ref(holder, functools.partial(_gone, weakref.ref(cell)))
        return np.asarray(holder)

    def fits(self, array: Contents) -> bool:
        """Whether the memory can take the elements of an array."""
        own = self.array
        return _is_lendable(array) and array.shape == own.shape and array.dtype == own.dtype

    def has_changed(self) -> bool:
        """Whether code has written to the memory since the last comparison."""
        own, known = self.elements.reshape(-1), np.asarray(self.array).reshape(-1)
        # Bits, since NaN differs from itself; by words, which is several times faster.
        bits = np.uint8 if own.nbytes % 8 else np.uint64
        return not np.array_equal(own.view(bits), known.view(bits))

    def count(self) -> None:
        """Warn once if reads of shared tensors take long."""
        before, _Loan.compared = _Loan.compared, _Loan.compared + self.elements.nbytes
        if before < _MUCH <= _Loan.compared:
            shape = list(self.elements.shape)
            warn(
                f"a tensor of shape {shape} shares its elements with an array that numpy() "
                "returned, so that each read of the tensor compares all of them. If the tensor is "
                "used while the array is kept, keep numpy().copy()"
            )


def _gone(known: Callable[[], Cell | None], _: object) -> None:
    """End a loan whose NumPy arrays are gone.

    Called wherever the last one dies, in a step of another thread as well. So nothing is computed
    here: a value that has changed is uploaded when it is read.
    """
    cell = known()
    loan = getattr(cell, "loan", None)
    if loan is not None and loan.holder() is None and not loan.has_changed():
        _end(cell)


def _end(cell: Any) -> None:
    """Make a Cell an ordinary one, which has its elements for itself; may be repeated."""
    cell.__class__ = Cell
    with contextlib.suppress(AttributeError):
        del cell.loan


class LentCell(Cell):
    """A Cell while it shares its elements with NumPy arrays.

    Attributes:
        loan: The memory.
    """

    __slots__ = ()

    loan: _Loan

    @property
    def address(self) -> int:
        """The address of the memory."""
        return self.loan.elements.ctypes.data

    @property
    def array(self) -> Contents:
        """See `Cell`. What replaces the value while a trace runs is not compared."""
        array = _ARRAY.__get__(self)
        return alone(self._up_to_date) if type(array) is ArrayImpl else array

    @array.setter
    def array(self, array: jax.Array) -> None:
        _ARRAY.__set__(self, array)
        loan = getattr(self, "loan", None)
        if loan is not None and type(array) in ARRAYS and array is not loan.array:
            alone(self._write_through, loan, computed(array))

    @array.deleter
    def array(self) -> None:
        _ARRAY.__delete__(self)

    @property
    def version(self) -> int:
        """See `Cell`; views look at it before they look at the array."""
        with contextlib.suppress(AttributeError):
            _ = self.array
        return _VERSION.__get__(self)

    @version.setter
    def version(self, version: int) -> None:  # type: ignore[override]
        _VERSION.__set__(self, version)

    def write_later(self, make: Callable[[], jax.Array]) -> None:
        """Write at once: NumPy arrays show the elements."""
        self.write(make())

    def _up_to_date(self) -> jax.Array:
        loan = self.loan
        loan.count()
        if loan.has_changed():
            (where,) = loan.array.sharding.device_set
            loan.array = upload(loan.elements.copy(), where)
            _ARRAY.__set__(self, loan.array)
            _VERSION.__set__(self, _VERSION.__get__(self) + 1)
        if loan.holder() is None:
            _end(self)
        return loan.array

    def _write_through(self, loan: _Loan, array: jax.Array) -> None:
        _ARRAY.__set__(self, array)
        if loan.fits(array):
            np.copyto(loan.elements, array)
            loan.array = array
        else:
            _end(self)


_ARRAY: Any = vars(Cell)["array"]
_VERSION: Any = vars(Cell)["version"]

# The arrays whose address was returned last, by address.
_owners: weakref.WeakValueDictionary[int, Cell] = weakref.WeakValueDictionary()


def address_of(cell: Cell) -> int:
    """The address of a Cell's elements at present; 0 if there are none.

    Arrays never change, so Cells may share one until either is written. Code that compares
    addresses asks which tensors share writes, so a Cell that shares an array is given a copy of its
    own first.
    """
    return alone(_find, cell)


def pointer(array: jax.Array) -> int:
    """The address of an array; of its first shard if it is on several devices."""
    if isinstance(array, Tracer):
        raise RuntimeError("elements have no address in a function that JAX transforms")
    if is_abstract(array) or not array.size:
        return 0
    if len(array.sharding.device_set) > 1:
        array = array.addressable_shards[0].data
    return array.unsafe_buffer_pointer()


def _find(cell: Cell) -> int:
    if isinstance(cell, LentCell):
        return cell.address
    address = pointer(cell.array)
    owner = _owners.get(address) if address else None
    if owner is not None and owner is not cell and _is_at(owner, address):
        cell.array = cell.array.copy()
        address = pointer(cell.array)
    if address:
        _owners[address] = cell
    return address


def _is_at(cell: Cell, address: int) -> bool:
    array = cell.array
    return not isinstance(array, Tracer) and not array.is_deleted() and pointer(array) == address
