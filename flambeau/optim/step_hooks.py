"""Hooks around the steps of one optimizer, or of all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.core.support.handle import RemovableHandle
from flambeau.core.support.tracebacks import trim
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
    """The handle of a hook that is appended, or with ``prepend`` put first."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """``step`` surrounded by the hooks of the optimizer and of all optimizers."""

    @functools.wraps(step)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._opt_called is False:
            self._opt_called = True
        try:
            return _run_step(step, self, args, kwargs)
        except Exception as error:
            trim(error)
            raise

    return hooked


def _run_step(
    step: Callable[..., Any], optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a step with its hooks; the profiler replaces this function while it runs."""
    is_hooked = (
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
    )
    # A step that calls its superclass's step is one step.
    if not is_hooked or optimizer._in_step:
        return step(optimizer, *args, **kwargs)
    optimizer._in_step = True
    try:
        return _run_hooked(step, optimizer, (optimizer, *args), kwargs)
    finally:
        optimizer._in_step = False


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
