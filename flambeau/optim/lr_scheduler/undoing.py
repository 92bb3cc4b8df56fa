"""Atomic steps of schedulers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.core.programs import finishing
from flambeau.core.support.tracebacks import trim
from flambeau.core.values.tensor import Tensor


def whole(step: Callable[..., None]) -> Callable[..., None]:
    """A scheduler's ``step``; an error or an interrupt leaves everything unchanged.

    Many schedulers compute the next rates from the current ones, so a half-completed step would
    make all later rates wrong.
    """

    @functools.wraps(step)
    def undone(self: Any, *args: Any, **kwargs: Any) -> None:
        before = [(each, _content(each)) for each in _changed_by(self)]
        try:
            step(self, *args, **kwargs)
        except BaseException as error:
            finishing.finish(lambda _: _put_back(before))
            trim(error)
            raise

    return undone


def _changed_by(scheduler: Any) -> Iterator[dict[str, Any]]:
    """The attributes of a scheduler and of its inner schedulers, and the optimizer's groups."""
    yield vars(scheduler)
    for each in getattr(scheduler, "_schedulers", ()):
        yield from _changed_by(each)
    yield from scheduler.optimizer.param_groups


def _content(changed: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Each value, with the elements of tensors, which are overwritten in place."""
    return {
        name: (value, value._read() if isinstance(value, Tensor) else None)
        for name, value in changed.items()
        if name not in ("optimizer", "params")
    }


def _put_back(before: list[tuple[dict[str, Any], dict[str, tuple[Any, Any]]]]) -> None:
    for changed, content in before:
        for name, (value, elements) in content.items():
            if changed.get(name) is not value:
                changed[name] = value
            if elements is not None and value._read() is not elements:
                value._store(elements)
