"""Modules that hold parameters: a list and a dictionary."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, KeysView, Mapping
from typing import Any, NoReturn, Self, TypeAlias

from flambeau.core.values.tensor import Tensor
from flambeau.nn.module import Module
from flambeau.nn.parameter import Parameter

#: A mapping, a module that acts as one, or pairs.
Pairs: TypeAlias = Mapping[str, Any] | Module | Iterable[Any]


class ParameterList(Module):
    """A list of parameters. Tensors become parameters; other values are kept unchanged.

    Args:
        values: The parameters, tensors or other values.
    """

    def __init__(self, values: Iterable[object] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _name_at(self, index: int) -> str:
        """The attribute that holds the value at a position, which may count from the end."""
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for a ParameterList of {len(self)}")
        return str(index % len(self))

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(self[i] for i in range(*idx.indices(len(self))))
        return getattr(self, self._name_at(idx))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, self._name_at(idx), _as_parameter(param))

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def append(self, value: Any) -> Self:
        """Add ``value`` at the end; return self."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add the values of an iterable at the end; return self.

        Raises:
            TypeError: ``values`` cannot be iterated over, or is a single Tensor.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend takes an iterable of values, but got a "
                f"{type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """One line per value."""
        return "\n".join(
            _line(str(i), value, getattr(value, "dtype", None)) for i, value in enumerate(self)
        )

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError("a ParameterList holds parameters and cannot be called")


class ParameterDict(Module):
    """A dictionary of parameters. Tensors become parameters; other values are kept unchanged.

    Args:
        parameters: The values by name: a mapping, or an iterable of pairs. The keys of an unordered
            mapping, such as a plain ``dict``, are sorted.
    """

    def __init__(self, parameters: Pairs | None = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _checked_key(key))

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, _checked_key(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[_checked_key(key)]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __or__(self, other: ParameterDict) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def copy(self) -> ParameterDict:
        """A new dictionary with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: object = None) -> Any:
        """The value of ``key``; set to ``default`` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove ``key``, and return its value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the key added last, and return it with its value."""
        key = next(reversed(self._keys), None)
        if key is None:
            raise KeyError("popitem(): the ParameterDict is empty")
        return key, self.pop(key)

    def get(self, key: str, default: object = None) -> Any:
        """The value of ``key``, or ``default`` if there is none."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: object = None) -> ParameterDict:
        """A new dictionary with ``default`` for each of ``keys``."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Pairs) -> None:
        """Add, or replace, the values of a mapping or of an iterable of pairs.

        Raises:
            TypeError: ``parameters`` or one of its elements cannot be iterated over.
            ValueError: An element is not a pair.
        """
        pairs = pairs_of("ParameterDict", parameters)
        keeps_order = not isinstance(parameters, Mapping) or isinstance(parameters, OrderedDict)
        for key, value in pairs if keeps_order else sorted(pairs):
            self[key] = value

    def extra_repr(self) -> str:
        """One line per value."""
        return "\n".join(
            _line(key, value, value.type() if isinstance(value, Tensor) else None)
            for key, value in self.items()
        )

    def __call__(self, input: object) -> NoReturn:
        raise RuntimeError("a ParameterDict holds parameters and cannot be called")


def pairs_of(owner: str, source: Pairs) -> list[tuple[str, Any]]:
    """The pairs of a mapping, of a module that acts as a mapping, or of an iterable of pairs.

    Raises:
        TypeError: ``source`` or one of its elements cannot be iterated over.
        ValueError: An element is not a pair.
    """
    if not isinstance(source, Iterable):
        raise TypeError(
            f"{owner}.update takes a mapping or an iterable of pairs, "
            f"but got a {type(source).__name__}"
        )
    if isinstance(source, Mapping | Module) and hasattr(source, "items"):
        return list(source.items())
    pairs = []
    for number, pair in enumerate(source):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{owner}.update takes pairs, but element {number} is a {type(pair).__name__}"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{owner}.update takes pairs, but element {number} has {len(pair)} values"
            )
        pairs.append(pair)
    return pairs


def _as_parameter(value: object) -> object:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _checked_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the keys of a ParameterDict are strings, but got a {type(key).__name__}")
    return key


def _line(name: str, value: object, kind: object) -> str:
    """The text of one value of a container; ``kind`` is the type of a tensor."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {type(value).__name__}"
    owner = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(n) for n in value.shape)
    place = "" if value.device.type in ("cpu", "meta") else f" ({value.device})"
    return f"  ({name}): {owner} containing: [{kind} of size {size}{place}]"
