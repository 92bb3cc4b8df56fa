"""The changes of `backward` to gradients, undone if it fails.

A backward inside another one (of a checkpointed part, of a hook) belongs to the outer one. Where
anything else has written to a gradient in between, such as a backward on another thread or a hook
after the accumulation, the gradient is left unchanged.
"""

from __future__ import annotations

import threading
from typing import Any

from flambeau.core.programs.finishing import again, alone
from flambeau.core.support import world

#: A gradient that `backward` is about to replace or to write to: (the tensor, its gradient before,
#: the old elements if they are to be overwritten, its gradient after, the number of writes to its
#: Cell after). The two gradients are one object if the elements are overwritten. A plain tuple,
#: since one is made for each leaf.
Change = tuple[Any, Any, Any, Any, int]


class _Local(threading.local):
    #: The innermost `engine.Backward` of this thread.
    backward: Any = None


this_thread = _Local()


def replacing(tensor: Any, before: Any, after: Any) -> None:
    """Note that ``after`` is about to become the gradient of ``tensor``."""
    backward = this_thread.backward
    if backward is not None and not tensor._post_accumulate_hooks:
        backward.changes.append((tensor, before, None, after, _writes(after)))


def writing(tensor: Any, grad: Any, array: Any) -> None:
    """Note that ``grad``, the gradient of ``tensor``, is about to lose its elements ``array``."""
    backward = this_thread.backward
    if backward is not None and not tensor._post_accumulate_hooks:
        backward.changes.append((tensor, grad, array, grad, _writes(grad) + 1))


def _writes(grad: Any) -> int:
    # A sparse gradient has no Cell, and is always replaced.
    return 0 if grad.is_sparse else grad._cell.version


def undo(changes: list[Change], count: int) -> None:
    """Take back all but the first ``count`` changes, the last one first."""

    def take_back() -> None:
        while len(changes) > count:
            alone(_take_back, changes[-1])
            changes.pop()

    again(take_back)


def _take_back(change: Change) -> None:
    tensor, before, array, after, version = change
    if tensor._grad is not after:
        return
    missing = version - _writes(after)
    if before is not after:
        if not missing:
            tensor._grad = before
            world.bump_gradients()
    # A write may have been interrupted before it was counted.
    elif not missing or (missing == 1 and after._read() is not array):
        after._store(array)
