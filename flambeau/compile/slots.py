"""Slots: places where another object may stand at each call.

A program looks up at each call what stands in a slot, instead of being bound to what it found
while it was traced. Attributes, gradients, globals, closures and members of containers are slots.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from flambeau.compile import guard
from flambeau.compile.places import MISSING, AttributeSlot, Outside
from flambeau.core import world
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
        world.gradients += 1


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
        whole = object.__new__(Tensor)
        whole._cell = tensor._cell
        return whole


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

Slot = AttributeSlot | CellSlot | GradSlot | ItemSlot | Outside


def tensors_in(value: Any, slot: Any) -> Iterator[tuple[Any, Tensor]]:
    """The tensors in what stands in ``slot``, tuples taken apart, each with its own slot."""
    if isinstance(value, Tensor):
        yield slot, value
    elif is_tuple(value):
        for i, each in enumerate(value):
            yield from tensors_in(each, ItemSlot(slot, i))


def spec_of(value: Any) -> Any:
    """What a program takes for granted of what stands in a slot.

    Of a tensor that is shape and dtype, of a container its kind; what a trace asks about the
    content is compared on its own.
    """
    if isinstance(value, Tensor) and value._view is None:
        return tuple(value.shape), value.dtype, value.requires_grad
    if is_tuple(value):
        return type(value), tuple(map(spec_of, value))
    if type(value) in KINDS:
        return (
            type(value), getattr(value, "maxlen", None), getattr(value, "default_factory", None),
        )  # fmt: skip
    return guard.freeze(value)
