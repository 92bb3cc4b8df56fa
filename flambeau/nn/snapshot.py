"""Changing a tree of modules all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flambeau.core.modes import no_grad
from flambeau.core.tensor import Tensor


@contextmanager
def all_or_nothing(module: Any) -> Iterator[None]:
    """Undo what the block has done to the tensors of ``module`` if it raises.

    Whoever did it: user code that runs inside may write to tensors or replace them as it likes.
    What is kept meanwhile are references to immutable arrays, so nothing is copied.
    """
    snapshot = _Snapshot(module)
    try:
        yield
    except BaseException:
        snapshot.restore()
        raise


class _Snapshot:
    """Every tensor of a tree of modules: where it stands, and what it holds."""

    def __init__(self, root: Any) -> None:
        self.tables: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.values: dict[int, _Value] = {}
        for module in root.modules():
            plain = {n: v for n, v in module.__dict__.items() if isinstance(v, Tensor)}
            self._add(module.__dict__, plain)
            for table in (module._parameters, module._buffers, module._modules):
                self._add(table, dict(table))

    def _add(self, table: dict[str, Any], entries: dict[str, Any]) -> None:
        self.tables.append((table, entries))
        for entry in entries.values():
            if isinstance(entry, Tensor) and id(entry) not in self.values:
                self.values[id(entry)] = _Value(entry)

    def restore(self) -> None:
        """Put everything back."""
        for table, entries in self.tables:
            table.update(entries)
        with no_grad():
            for value in self.values.values():
                value.restore()


class _Value:
    """What one tensor holds."""

    __slots__ = ("array", "place", "requires_grad", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.place = tensor.data
        self.array = tensor._read()
        self.requires_grad = tensor.requires_grad

    def restore(self) -> None:
        """Put it back, if it has changed."""
        tensor = self.tensor
        if tensor._cell is not self.place._cell:
            tensor.data = self.place
        if tensor._read() is not self.array:
            tensor._store(self.array)
        if tensor.is_leaf:
            tensor.requires_grad = self.requires_grad
