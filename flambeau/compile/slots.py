"""Slots: places where another object may stand at each call.

A program looks up at each call what stands in a slot, instead of being bound to what it found
while it was traced. Attributes, gradients, globals, closures and members of containers are slots.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, NamedTuple

from flambeau.compile import guard
from flambeau.compile.ownership import attributes_of
from flambeau.compile.places import MISSING, AttributeSlot, Outside
from flambeau.compile.structure import fields_of
from flambeau.core import world
from flambeau.core.attributes import handle_on
from flambeau.core.identity import Same
from flambeau.core.pytree import is_tuple
from flambeau.core.tensor import Tensor


class GradSlot(NamedTuple):
    """The ``.grad`` of a tensor."""

    tensor: Tensor

    def get(self) -> Any:
        """The gradient that stands in the slot now."""
        return self.tensor._grad

    def set(self, value: Any) -> None:
        """Put a gradient into the slot."""
        self.tensor._grad = value
        world.bump_gradients()


@dataclass(frozen=True)
class CellSlot:
    """The whole Cell of a tensor that a program gives another one at each call.

    Attributes:
        tensor: The tensor.
    """

    tensor: Tensor

    def get(self) -> Tensor:
        """A tensor on all elements of the Cell."""
        tensor = self.tensor
        if tensor._view is None:
            return tensor
        return handle_on(tensor._cell, Tensor)


class ItemSlot(NamedTuple):
    """A member of what stands in another slot: of a list, a tuple or a dictionary.

    Attributes:
        parent: Where the container stands.
        key: The key or index of the member.
        default: Makes what counts as the member where there is none.
    """

    parent: Any
    key: Any
    default: Callable[[], Any] | None = None

    def get(self) -> Any:
        """What stands in the slot now."""
        return self.of(self.parent.get())

    def of(self, container: Any) -> Any:
        """What would stand in the slot if ``container`` stood in its parent."""
        try:
            if isinstance(container, dict):
                # One with defaults must not make one here.
                value = dict.get(container, self.key, MISSING)
            else:
                value = type(container).__getitem__(container, self.key)
        except (AttributeError, IndexError, TypeError):
            return MISSING
        return self.default() if value is MISSING and self.default is not None else value

    def __str__(self) -> str:
        return f"{self.parent}[{self.key!r}]"


class FieldSlot(NamedTuple):
    """An attribute of an object of a dataclass that stands in another slot.

    Attributes:
        parent: Where the object stands.
        name: The name of the attribute.
    """

    parent: Any
    name: str

    def get(self) -> Any:
        """What stands in the slot now."""
        return attributes_of(self.parent.get()).get(self.name, MISSING)

    def __str__(self) -> str:
        return f"{self.parent}.{self.name}"


class Asked(NamedTuple):
    """A fact about a container: no slot, but looked up at each call in the same way.

    Attributes:
        parent: Where the container stands.
        fact: What gives it, such as ``len``.
        args: What that takes besides the container.
    """

    parent: Any
    fact: Callable[..., Any]
    args: tuple[Any, ...] = ()

    def get(self) -> Any:
        """The fact now."""
        return self.of(self.parent.get())

    def of(self, container: Any) -> Any:
        """The fact about ``container``."""
        try:
            return self.fact(container, *self.args)
        except TypeError:
            return MISSING

    def __str__(self) -> str:
        return str(self.parent)


#: The containers whose content programs look up, and change, at each call.
KINDS = (list, dict, OrderedDict, defaultdict, deque)

Slot = AttributeSlot | CellSlot | FieldSlot | GradSlot | ItemSlot | Outside

#: Where a tensor is found: the tensor itself, the position of an argument, or a slot.
Where = Tensor | int | Slot


def find(where: Where, leaves: Sequence[Any]) -> Any:
    """The tensor at ``where`` in one call, given the leaves of its arguments."""
    if isinstance(where, Tensor):
        return where
    return leaves[where] if isinstance(where, int) else where.get()


# Objects of dataclasses that are farther inside each other are compared by identity.
_DEEPEST = 4


def _is_object(value: Any) -> bool:
    """Whether ``value`` is of a dataclass, and has attributes and nothing else."""
    return is_dataclass(value) and fields_of(value) is not None


def objects_in(value: Any, depth: int = 0) -> Iterator[Any]:
    """The objects of dataclasses in what stands in a slot."""
    if is_tuple(value):
        for each in value:
            yield from objects_in(each, depth)
    elif depth < _DEEPEST and _is_object(value):
        yield value
        for each in attributes_of(value).values():
            yield from objects_in(each, depth + 1)


def tensors_in(value: Any, slot: Any, depth: int = 0) -> Iterator[tuple[Any, Tensor]]:
    """The tensors in what stands in ``slot``, each with its own slot.

    Tuples and objects of dataclasses are taken apart.
    """
    if isinstance(value, Tensor):
        yield slot, value
    elif is_tuple(value):
        for i, each in enumerate(value):
            yield from tensors_in(each, ItemSlot(slot, i), depth)
    elif depth < _DEEPEST and _is_object(value):
        for name, each in attributes_of(value).items():
            yield from tensors_in(each, FieldSlot(slot, name), depth + 1)


def spec_of(value: Any, depth: int = 0) -> Any:
    """What a program takes for granted of what stands in a slot.

    Of a tensor that is shape and dtype, of a container its kind; what a trace asks about the
    content is compared on its own. Containers in an object of a dataclass count by identity.
    """
    if isinstance(value, Tensor) and value._view is None:
        return tuple(value.shape), value.dtype, value.requires_grad
    if is_tuple(value):
        return type(value), tuple([spec_of(each, depth) for each in value])
    if type(value) in KINDS:
        if depth:
            return Same(value)
        return (
            type(value), getattr(value, "maxlen", None), getattr(value, "default_factory", None),
        )  # fmt: skip
    if depth < _DEEPEST and _is_object(value):
        fields = attributes_of(value).items()
        return type(value), tuple([(name, spec_of(each, depth + 1)) for name, each in fields])
    return guard.freeze(value)
