"""Sizes that an exported program leaves open, as `jax.export`'s symbolic sizes."""

from __future__ import annotations

import contextlib
import enum
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from jax import export as jax_export

from flambeau.core.support.tracebacks import OWN_FOLDERS
from flambeau.core.values.tensor import Tensor
from flambeau.export import structure

__all__ = ["Dim", "dims"]

# Words of the text form of JAX's symbolic sizes.
_TAKEN = {"floordiv", "max", "min", "mod", "non_negative"}


class _Hint(enum.Enum):
    AUTO = "AUTO"
    DYNAMIC = "DYNAMIC"
    STATIC = "STATIC"


class Dim:
    """A size that an exported program leaves open; used twice, the two sizes are equal.

    In place of one, ``Dim.DYNAMIC`` is an open size of its own and ``Dim.STATIC`` the example's.

    Args:
        name: An identifier of ASCII characters.
        min: The least size; programs take no size of 0.
        max: The greatest size; by default there is none.

    Raises:
        ValueError: ``name`` is no identifier, or ``max`` less than ``min``.

    >>> from flambeau.export import Dim
    >>> Dim("batch", max=64)
    Dim('batch', min=1, max=64)
    """

    AUTO: ClassVar[Any] = _Hint.AUTO
    DYNAMIC: ClassVar[Any] = _Hint.DYNAMIC
    STATIC: ClassVar[Any] = _Hint.STATIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not (isinstance(name, str) and name.isidentifier() and name.isascii()):
            raise ValueError(f"Dim name must be a valid identifier, got {name!r:.80}")
        if name in _TAKEN:
            raise ValueError(f"a Dim cannot have the name {name!r}, a word of JAX's sizes")
        least = min or 1
        if not 1 <= least <= (least if max is None else max):
            raise ValueError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        self.__name__ = name
        self.min: int = least
        self.max: int | None = max

    def __repr__(self) -> str:
        most = "" if self.max is None else f", max={self.max}"
        return f"Dim({self.__name__!r}, min={self.min}{most})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A `Dim` for each name."""
    return tuple(Dim(each, min=min, max=max) for each in names)


# Operators count positions in 32 bits, and compare sizes with this one.
_LARGEST = 2**31 - 1


class Bounds(NamedTuple):
    """The sizes that an open size may have."""

    least: int
    most: int

    def __contains__(self, size: object) -> bool:
        return isinstance(size, int) and self.least <= size <= self.most

    def __str__(self) -> str:
        is_open = self.most == _LARGEST
        return f"at least {self.least}" if is_open else f"from {self.least} to {self.most}"


class OpenSizes:
    """The open sizes of the inputs of one program, collected from ``dynamic_shapes``.

    Attributes:
        bounds: The bounds of each, by name.
    """

    def __init__(self) -> None:
        self.bounds: dict[str, Bounds] = {}
        # The size and the place of each in the example.
        self._first: dict[str, tuple[int, str]] = {}

    def shape(self, name: str, example: Sequence[int], spec: Any) -> tuple[int | str, ...]:
        """The shape of an input, with names for the open sizes.

        Args:
            name: The input's name, for messages.
            example: The shape of the example.
            spec: The input's entry in ``dynamic_shapes``.

        Raises:
            TypeError: The entry, or one of its dimensions, has another type.
            ValueError: It does not fit the example.
        """
        rank = len(example)
        if spec is None:
            return tuple(example)
        if isinstance(spec, Mapping):
            wrong = [each for each in spec if type(each) is not int or not 0 <= each < rank]
            if wrong:
                raise ValueError(
                    f"dynamic_shapes: {name} has the dimensions 0 to {rank - 1}, got {wrong}"
                )
            entries = [spec.get(each) for each in range(rank)]
        elif isinstance(spec, list | tuple):
            entries = list(spec)
            if len(entries) != rank:
                raise ValueError(
                    f"dynamic_shapes: {name} has {rank} dimensions, got {len(entries)} entries"
                )
        else:
            raise TypeError(
                f"dynamic_shapes: the entry of {name} must be a dict, tuple or list of Dims by "
                f"dimension, or None, got {spec!r:.80}"
            )
        pairs = zip(example, entries, strict=True)
        return tuple(self._size(name, i, size, entry) for i, (size, entry) in enumerate(pairs))

    def _size(self, name: str, i: int, size: int, entry: Any) -> int | str:
        place = f"dimension {i} of {name}"
        if entry is None or entry is Dim.STATIC:
            return size
        if type(entry) is int:
            if entry != size:
                raise ValueError(f"dynamic_shapes: {place} is {entry}, but {size} in the example")
            return size
        if entry is Dim.DYNAMIC:
            entry = Dim(re.sub(r"\W", "_", f"{name}_{i}", flags=re.ASCII))
        if not isinstance(entry, Dim):
            advice = "; give a Dim or Dim.DYNAMIC" if entry is Dim.AUTO else ""
            raise TypeError(f"dynamic_shapes: {place} must be a Dim, got {entry!r:.80}{advice}")
        self._add(entry, size, place)
        return entry.__name__

    def _add(self, dim: Dim, size: int, place: str) -> None:
        name, bounds = dim.__name__, Bounds(dim.min, _LARGEST if dim.max is None else dim.max)
        if self.bounds.setdefault(name, bounds) != bounds:
            raise ValueError(f"dynamic_shapes: there are two Dims {name!r} with different bounds")
        first, where = self._first.setdefault(name, (size, place))
        if first != size:
            raise ValueError(
                f"dynamic_shapes: both sizes of Dim {name!r} must be equal in the example, got "
                f"{first} in {where} and {size} in {place}"
            )
        if size not in bounds:
            raise ValueError(
                f"dynamic_shapes: Dim {name!r} is {bounds}, but {size} in the example, in {place}"
            )

    def symbols(self) -> dict[str, Any]:
        """JAX's symbolic size for each name."""
        scope = scope_of(self.bounds)
        found = jax_export.symbolic_shape(", ".join(self.bounds), scope=scope)
        return dict(zip(self.bounds, found, strict=True))


def scope_of(bounds: Mapping[str, Bounds]) -> jax_export.SymbolicScope:
    """JAX's scope for open sizes with these bounds.

    Raises:
        ValueError: JAX takes no such name or bounds.
    """
    for name, each in bounds.items():
        Dim(name, min=each.least, max=each.most)
    limits = [f"{name} >= {each.least}" for name, each in bounds.items()]
    limits += [f"{name} <= {each.most}" for name, each in bounds.items()]
    return jax_export.SymbolicScope(limits)


def entries_of(value: Any, spec: Any, path: str) -> list[Any]:
    """The entry of ``dynamic_shapes`` for each tensor in an argument, in order.

    Raises:
        ValueError: ``spec`` has another structure than ``value``.
    """
    members = structure.members(value, path)
    if members is None:
        return [spec] if structure.is_tensor(value) else []
    if spec is None:
        specs: list[Any] = [None] * len(members)
    elif isinstance(value, Mapping) and isinstance(spec, Mapping) and spec.keys() <= value.keys():
        specs = [spec.get(key) for key in value]
    elif isinstance(spec, list | tuple) and len(spec) == len(members):
        specs = list(spec)
    else:
        raise ValueError(
            f"dynamic_shapes: the entry of {path} must have its structure, a "
            f"{type(value).__name__} of {len(members)}, got {spec!r:.80}"
        )
    pairs = zip(members, specs, strict=True)
    return [entry for (where, each), part in pairs for entry in entries_of(each, part, where)]


_lock = threading.RLock()

_OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge",
)  # fmt: skip


@contextlib.contextmanager
def exact_sizes() -> Iterator[None]:
    """A block in which user's code may compute with open sizes as with numbers.

    - An operator of a size and a tensor is the tensor's. JAX gives an array, of its own dtype.
    - Asking whether a size equals a number is an error. For JAX, ``size == 3`` is false for an open
      size, so a branch would be wrong for that size.
    """
    kind: Any = type(jax_export.symbolic_shape("size")[0])
    thread = threading.get_ident()
    with _lock:
        plain = {f"__{name}__": getattr(kind, f"__{name}__") for name in _OPERATORS}

        def equals(size: Any, other: Any) -> Any:
            found = plain["__eq__"](size, other)
            if found is False and threading.get_ident() == thread and isinstance(other, int | kind):
                file = sys._getframe(2).f_code.co_filename
                if not file.startswith(OWN_FOLDERS):
                    # Raises JAX's error unless one of them is greater for all sizes.
                    _ = size >= other and size > other
            return found

        for name, compute in plain.items():
            setattr(kind, name, _left_to_tensors(equals if name == "__eq__" else compute))
        try:
            yield
        finally:
            for name, compute in plain.items():
                setattr(kind, name, compute)


def _left_to_tensors(compute: Callable[..., Any]) -> Callable[..., Any]:
    """An operator of sizes that leaves a tensor on its right to the tensor's own operator."""

    def compute_or_leave(size: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, Tensor) else compute(size, other)

    return compute_or_leave
