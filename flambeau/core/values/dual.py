"""Tangents of tensors, for forward-mode differentiation while a dual level is open.

A tensor with a tangent is a *dual* tensor. `flambeau.core.tape.forward` propagates tangents through
operators; this file stores them.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from flambeau.core.support.modes import modes
from flambeau.core.types import Leaf, Node, Tensor


class Tangent:
    """The tangent of one tensor at one level.

    Attributes:
        level: The level; the tangent is valid while the level is open.
        tensor: The tangent, a tensor of the same shape and dtype; ``None`` for a view that has none
            though its base may have one.
    """

    __slots__ = ("__weakref__", "level", "tensor")

    def __init__(self, level: Level, tensor: Tensor | None) -> None:
        self.level: Level = level
        self.tensor: Tensor | None = tensor


class Level:
    """A dual level, between `enter` and `leave`.

    Attributes:
        saved: For nodes recorded on dual tensors, the tangents that the saved tensors had when the
            node was recorded.
    """

    def __init__(self) -> None:
        self.saved: weakref.WeakKeyDictionary[Node, tuple[Tensor | None, ...]] = (
            weakref.WeakKeyDictionary()
        )
        self._tangents: weakref.WeakSet[Tangent] = weakref.WeakSet()
        self._before: tuple[Level | None, Level | None] = (None, None)

    def enter(self) -> None:
        """Make operators on this thread propagate the tangents of this level, and of no other."""
        self._before = modes.level, modes.dual
        modes.level = modes.dual = self

    def leave(self) -> None:
        """End the level and drop its tangents."""
        modes.level, modes.dual = self._before
        self.saved.clear()
        for each in self._tangents:
            each.tensor = None

    def attach(self, tensor: Tensor, tangent: Tensor | None) -> None:
        """Make ``tangent`` the tangent of ``tensor``; ``None`` hides a view's base's."""
        held = tensor._tangent = Tangent(self, tangent)
        self._tangents.add(held)


def tangent_of(tensor: Tensor) -> Tensor | None:
    """The tangent of a tensor at the level that is open, if it has one.

    A view whose base is a dual tensor has a view of the base's tangent.
    """
    level = modes.level
    if level is None:
        return None
    held = tensor._tangent
    if held is not None and held.level is level:
        return held.tensor
    view = tensor._view
    if view is None or view.base is None:
        return None
    of_base = tangent_of(view.history_base())
    if of_base is None:
        return None
    with suspended():
        tangent = tensor._view_of_tangent(of_base, view)
    if tangent is not None:
        level.attach(tensor, tangent)
    return tangent


def owner_of_tangent(tensor: Tensor) -> Tensor:
    """The tensor that owns the tangent of ``tensor``: its base if it is a view, or itself."""
    held = tensor._tangent
    is_own = held is not None and held.level is modes.level
    return tensor if is_own else tensor._history_base()


def copy_tangent(source: Tensor, alias: Tensor) -> None:
    """Give ``alias``, another handle on the elements of ``source``, the same tangent."""
    if modes.dual is not None:
        tangent = tangent_of(source)
        if tangent is not None:
            modes.dual.attach(alias, tangent)


def restore_tangents(node: Any, saved: Sequence[Leaf]) -> None:
    """Restore the tangents of the tensors that ``node`` has saved."""
    level = modes.dual
    for each, tangent in zip(saved, level.saved.get(node, ()), strict=False):
        if tangent is not None and tangent_of(each) is None:
            level.attach(each, tangent)


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """A block in which operators propagate no tangents."""
    before, modes.dual = modes.dual, None
    try:
        yield
    finally:
        modes.dual = before
