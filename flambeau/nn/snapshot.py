"""Transactional changes to a tree of modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flambeau.core.support.modes import no_grad
from flambeau.core.values.tensor import Tensor
from flambeau.nn.registry import TABLES
from flambeau.nn.traversal import Traversal
from flambeau.sparse.tensor import SparseTensor


@contextmanager
def all_or_nothing(module: Traversal) -> Iterator[None]:
    """Undo the changes of the block to the tensors of ``module`` if it raises.

    This includes changes by user code inside the block, which may write to tensors or replace them.
    The snapshot holds references to immutable arrays, so nothing is copied.
    """
    snapshot = _Snapshot(module)
    try:
        yield
    except BaseException:
        snapshot.restore()
        raise


class _Snapshot:
    """Every tensor of a tree of modules: its place and its elements."""

    def __init__(self, root: Traversal) -> None:
        self.tables: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.attributes: list[tuple[dict[str, Any], str, Tensor]] = []
        self.values: dict[int, _Value] = {}
        for module in root.modules():
            state = module.__dict__
            for table in (module._parameters, module._buffers, module._modules):
                self.tables.append((table, dict(table)))
            tensors = [
                (name, each)
                for name, each in state.items()
                if name not in TABLES and isinstance(each, Tensor)
            ]
            self.attributes += [(state, name, tensor) for name, tensor in tensors]
            for _, tensor in (*tensors, *module._parameters.items(), *module._buffers.items()):
                if isinstance(tensor, SparseTensor):
                    # Only its values can change.
                    tensor = tensor._values_
                if tensor is not None and id(tensor) not in self.values:
                    self.values[id(tensor)] = _Value(tensor)

    def restore(self) -> None:
        """Restore all tensors."""
        for table, entries in self.tables:
            table.clear()
            table.update(entries)
        for state, name, tensor in self.attributes:
            state[name] = tensor
        with no_grad():
            for value in self.values.values():
                value.restore()


class _Value:
    """The content of one tensor."""

    __slots__ = ("array", "kind", "place", "requires_grad", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.kind = type(tensor)
        self.place = tensor.data
        self.array = tensor._read()
        self.requires_grad = tensor.requires_grad

    def restore(self) -> None:
        """Restore the content, if it has changed."""
        tensor = self.tensor
        if type(tensor) is not self.kind:
            # An uninitialized tensor was given the shape in the state dict.
            tensor.__class__ = self.kind
        if tensor._cell is not self.place._cell:
            tensor.data = self.place
        if tensor._read() is not self.array:
            tensor._store(self.array)
        if tensor.is_leaf:
            tensor.requires_grad = self.requires_grad
