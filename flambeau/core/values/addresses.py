"""Addresses of the elements of Cells: no two Cells have the same address."""

from __future__ import annotations

import weakref
from typing import Any

from jax.core import Tracer

from flambeau.core.programs.finishing import alone
from flambeau.core.values.cell import Cell, is_abstract

# The arrays whose address was returned last, by address.
_owners: weakref.WeakValueDictionary[int, Cell] = weakref.WeakValueDictionary()


def address_of(cell: Cell) -> int:
    """The address of a Cell's elements at present; 0 if there are none.

    Arrays never change, so Cells may share one until either is written. Code that compares
    addresses asks which tensors share writes, so a Cell that shares an array is given a copy of its
    own first.
    """
    return alone(_find, cell)


def pointer(array: Any) -> int:
    """The address of an array; of its first shard if it is on several devices."""
    if isinstance(array, Tracer):
        raise RuntimeError("elements have no address in a function that JAX transforms")
    if is_abstract(array) or not array.size:
        return 0
    if len(array.sharding.device_set) > 1:
        array = array.addressable_shards[0].data
    return array.unsafe_buffer_pointer()


def _find(cell: Cell) -> int:
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
