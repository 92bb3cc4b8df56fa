"""Hooks around the steps of one optimizer, or of all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.core.handle import RemovableHandle
from flambeau.nn.registry import HookRegistry

__all__ = ["register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

_global_optimizer_pre_hooks = HookRegistry()
_global_optimizer_post_hooks = HookRegistry()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before each step of every optimizer.

    ``args`` starts with the optimizer. The hook returns ``None`` or the new ``(args, kwargs)``.
    """
    return registered(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after each step of every optimizer."""
    return registered(_global_optimizer_post_hooks, hook)


def registered(
    hooks: HookRegistry, hook: Callable[..., Any], prepend: bool = False
) -> RemovableHandle:
    """The handle of a hook that was put last, or with ``prepend`` first."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """``step`` with the hooks of the optimizer and of all optimizers around it."""

    @functools.wraps(step)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._opt_called is False:
            self._opt_called = True
        if not (
            self._optimizer_step_pre_hooks
            or self._optimizer_step_post_hooks
            or _global_optimizer_pre_hooks
            or _global_optimizer_post_hooks
        ):
            return step(self, *args, **kwargs)
        # A step that calls its superclass's is one step.
        if self._in_step:
            return step(self, *args, **kwargs)
        self._in_step = True
        try:
            return _run_hooked(step, self, (self, *args), kwargs)
        finally:
            self._in_step = False

    return hooked


def _run_hooked(
    step: Callable[..., Any], optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    before = (_global_optimizer_pre_hooks, optimizer._optimizer_step_pre_hooks)
    for hook in [hook for hooks in before for hook in hooks.values()]:
        changed = hook(optimizer, args, kwargs)
        if changed is None:
            continue
        if not isinstance(changed, tuple) or len(changed) != 2:
            raise RuntimeError(
                f"a step pre-hook must return None or the new (args, kwargs), got {changed!r}"
            )
        args, kwargs = changed
    result = step(*args, **kwargs)
    after = (optimizer._optimizer_step_post_hooks, _global_optimizer_post_hooks)
    for hook in [hook for hooks in after for hook in hooks.values()]:
        hook(optimizer, args, kwargs)
    return result
