"""Containers of modules: sequential, list and dictionary."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from itertools import chain, islice
from typing import Any, Self

from flambeau.core.support.warning import warn
from flambeau.nn.module import Module, indented
from flambeau.nn.modules.parameter_container import ParameterDict, ParameterList, pairs_of

__all__ = [
    "Container",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "Sequential",
]


class Container(Module):
    """A module with the given submodules. Deprecated: `Module` itself can do all this.

    Args:
        **kwargs: The submodules by name.
    """

    def __init__(self, **kwargs: Module | None) -> None:
        super().__init__()
        warn("nn.Container is deprecated; subclass nn.Module", FutureWarning)
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """The base of `Sequential` and `ModuleList`: submodules that are indexed by position.

    In a list the names are the positions; in a `Sequential` they may differ.
    """

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _position(self, index: int) -> int:
        """A position counted from the start; negative positions count from the end.

        Raises:
            IndexError: The position is out of range.
        """
        size, position = len(self), operator.index(index)
        if not -size <= position < size:
            raise IndexError(
                f"index {position} is out of range for a {type(self).__name__} of {size}"
            )
        return position % size

    def _name_at(self, index: int) -> str:
        """The name of the submodule at a position."""
        return next(islice(self._modules, self._position(index), None))

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        names = list(self._modules)[idx] if isinstance(idx, slice) else [self._name_at(idx)]
        for name in names:
            delattr(self, name)
        self._modules = {str(i): module for i, module in enumerate(self._modules.values())}

    def append(self, module: Module) -> Self:
        """Add ``module`` at the end; return self."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove the module at ``key``, and return it."""
        popped = self[key]
        del self[key]
        return popped

    def __getitem__(self, idx: int | slice) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define indexing")

    def _shift(self, start: int) -> None:
        """Shift the modules from position ``start`` on by one."""
        for i in range(len(self._modules), start, -1):
            self._modules[str(i)] = self._modules[str(i - 1)]


class Sequential(_Numbered):
    """Modules in sequence: each takes the output of the previous one.

    Args:
        *args: The modules, or one `OrderedDict` of them by name.

    >>> from flambeau import nn
    >>> nn.Sequential(nn.Identity(), nn.Identity())
    Sequential(
      (0): Identity()
      (1): Identity()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *_checked_operand(other))

    def __iadd__(self, other: Sequential) -> Self:
        return self.extend(list(_checked_operand(other)))

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*list(self) * self._checked_factor(other))

    def __rmul__(self, other: int) -> Sequential:
        return self * other

    def __imul__(self, other: int) -> Self:
        return self.extend(list(self) * (self._checked_factor(other) - 1))

    def _checked_factor(self, factor: int) -> int:
        if not isinstance(factor, int):
            raise TypeError(
                f"a {type(self).__name__} is repeated by an int, not by a {type(factor).__name__}"
            )
        if factor <= 0:
            raise ValueError(
                f"a {type(self).__name__} is repeated by a positive factor, but got {factor}"
            )
        return factor

    def forward(self, input: Any) -> Any:
        """The output of the last module; ``input`` itself if there are no modules."""
        for module in self:
            input = module(input)
        return input

    def insert(self, index: int, module: Module) -> Self:
        """Insert ``module`` before position ``index``, which may count from the end; return self.

        Raises:
            AssertionError: ``module`` is not a module.
            IndexError: The position is out of range.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"only modules can be inserted, but got a {type(module).__name__}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"index {index} is out of range for a Sequential of {size}")
        index += size if index < 0 else 0
        self._shift(index)
        self._modules[str(index)] = module
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add the modules of an iterable at the end; return self."""
        for module in sequential:
            self.append(module)
        return self


def _checked_operand(other: object) -> Sequential:
    if not isinstance(other, Sequential):
        raise ValueError(
            f"only another Sequential can be added to a Sequential, not a {type(other).__name__}"
        )
    return other


class ModuleList(_Numbered):
    """A list of modules that are registered as submodules.

    Args:
        modules: The modules.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _name_at(self, index: int) -> str:
        return str(self._position(index))

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self)[idx])
        return self._modules[self._name_at(idx)]

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def insert(self, index: int, module: Module) -> None:
        """Insert ``module`` before position ``index``, as ``list.insert`` does."""
        size = len(self)
        index = max(0, index + size) if index < 0 else min(index, size)
        self._shift(index)
        self._modules[str(index)] = module

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add the modules of an iterable at the end; return self.

        Raises:
            TypeError: ``modules`` cannot be iterated over.
        """
        if type(modules) is not list:
            if not isinstance(modules, Iterable):
                raise TypeError(
                    f"ModuleList.extend takes an iterable, but got a {type(modules).__name__}"
                )
            modules = list(modules)
        for position, module in enumerate(modules, len(self._modules)):
            self.add_module(str(position), module)
        return self

    def __repr__(self) -> str:
        blocks: list[tuple[int, int, str]] = []
        for i, text in enumerate(repr(module) for module in self):
            if blocks and blocks[-1][2] == text:
                blocks[-1] = (blocks[-1][0], i, text)
            else:
                blocks.append((i, i, text))
        if not blocks:
            return f"{self._get_name()}()"
        body = "\n  ".join(indented(_block_text(*block)) for block in blocks)
        return f"{self._get_name()}(\n  {body}\n)"


def _block_text(first: int, last: int, text: str) -> str:
    """A run of modules with the same text."""
    if first == last:
        return f"({first}): {text}"
    return f"({first}-{last}): {last - first + 1} x {text}"


class ModuleDict(Module):
    """A dictionary of modules that are registered as submodules.

    Args:
        modules: The modules by name: a mapping, or an iterable of pairs.
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module | None) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove the module ``key``, and return it."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Any]:
        """Names and modules."""
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        """The modules."""
        return self._modules.values()

    def update(
        self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | ModuleDict
    ) -> None:
        """Add, or replace, the modules of a mapping or of an iterable of pairs.

        Raises:
            TypeError: ``modules`` or one of its elements cannot be iterated over.
            ValueError: An element is not a pair.
        """
        for key, module in pairs_of("ModuleDict", modules):
            self[key] = module
