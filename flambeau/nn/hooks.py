"""Registration of hooks, and the registries of hooks on every module."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.core.support.handle import RemovableHandle
from flambeau.nn.common_types import (
    ForwardHook,
    ForwardPreHook,
    GradHook,
    GradPreHook,
    Kwargs,
    RegistrationHook,
)
from flambeau.nn.registry import HookRegistry, Member, ModuleState

_global_buffer_registration_hooks = HookRegistry()
_global_module_registration_hooks = HookRegistry()
_global_parameter_registration_hooks = HookRegistry()

_global_backward_pre_hooks = HookRegistry()
_global_backward_hooks = HookRegistry()
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks = HookRegistry()
_global_forward_hooks = HookRegistry()
_global_forward_hooks_with_kwargs = HookRegistry()
_global_forward_hooks_always_called = HookRegistry()


def add_hook(
    hooks: HookRegistry,
    hook: Callable[..., object],
    *,
    marks: Sequence[tuple[HookRegistry, bool]] = (),
    prepend: bool = False,
) -> RemovableHandle:
    """Register ``hook``.

    Args:
        hooks: The registry of the hook.
        hook: The function to call.
        marks: Registries that mark hooks with a property, and whether this hook has it.
        prepend: Call it before the hooks that are registered so far.

    Returns:
        A handle that removes the hook and its marks.
    """
    handle = RemovableHandle(hooks, extra_dict=[registry for registry, _ in marks])
    hooks[handle.id] = hook
    for registry, marked in marks:
        if marked:
            registry[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_buffer_registration_hook(hook: RegistrationHook) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` whenever a buffer is registered in any module.

    Its result, unless ``None``, is registered instead.
    """
    return add_hook(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: RegistrationHook) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` whenever a module is registered in any module.

    Its result, unless ``None``, is registered instead.
    """
    return add_hook(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: RegistrationHook) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` whenever a parameter is registered in any module.

    Its result, unless ``None``, is registered instead.
    """
    return add_hook(_global_parameter_registration_hooks, hook)


def filter_registration(
    hooks: HookRegistry, module: ModuleState, name: str, member: Member
) -> Member:
    """The result of the hooks for ``member``, which ``module`` is about to register."""
    for hook in hooks.values():
        replacement = hook(module, name, member)
        if replacement is not None:
            member = replacement
    return member


def register_module_forward_pre_hook(hook: ForwardPreHook) -> RemovableHandle:
    """Call ``hook(module, args)`` before `forward` of every module, before the module's own hooks.

    Its result, unless ``None``, replaces the positional arguments; a single value means a tuple of
    one.
    """
    return add_hook(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: ForwardHook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after `forward` of every module, before the module's own.

    Args:
        hook: Its result, unless ``None``, replaces the output.
        with_kwargs: Call ``hook(module, args, kwargs, output)`` instead.
        always_call: Call it also when the call raises.
    """
    return add_hook(
        _global_forward_hooks,
        hook,
        marks=[
            (_global_forward_hooks_with_kwargs, with_kwargs),
            (_global_forward_hooks_always_called, always_call),
        ],
    )


def register_module_full_backward_pre_hook(hook: GradPreHook) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before the gradients of any module's inputs are computed.

    Its result, unless ``None``, replaces ``grad_output``.
    """
    return add_hook(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: GradHook) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` once any module's input gradients are known.

    Its result, unless ``None``, replaces ``grad_input``.

    Raises:
        RuntimeError: A global hook of the other kind (`register_module_backward_hook`) was
            registered.
    """
    return _add_global_backward_hook(hook, full=True)


def register_module_backward_hook(hook: GradHook) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` around the last operator of every module.

    Kept for older programs; `register_module_full_backward_hook` sees the gradients of the whole
    module.

    Raises:
        RuntimeError: A global hook of the other kind was registered.
    """
    return _add_global_backward_hook(hook, full=False)


def _add_global_backward_hook(hook: GradHook, full: bool) -> RemovableHandle:
    global _global_is_full_backward_hook
    check_backward_kind(_global_is_full_backward_hook, full, "as global module hooks")
    _global_is_full_backward_hook = full
    return add_hook(_global_backward_hooks, hook)


def check_backward_kind(current: bool | None, full: bool, where: str) -> None:
    """Raise RuntimeError if a backward hook would join hooks of the other kind."""
    if current is not None and current is not full:
        kinds = {True: "full", False: "non-full"}
        raise RuntimeError(
            f"cannot register a {kinds[full]} backward hook {where}: {kinds[current]} backward "
            "hooks were registered before, and the two kinds cannot be mixed"
        )


def global_backward_hooks(full: bool) -> Iterable[GradHook]:
    """The global backward hooks, if they are of the requested kind."""
    return _global_backward_hooks.values() if _global_is_full_backward_hook is full else ()


def all_global_hooks() -> tuple[object, ...]:
    """All hooks registered for the calls of every module, in a comparable form."""
    registries = (
        _global_backward_pre_hooks,
        _global_backward_hooks,
        _global_forward_pre_hooks,
        _global_forward_hooks,
        _global_forward_hooks_with_kwargs,
        _global_forward_hooks_always_called,
    )
    return tuple(tuple(registry.items()) for registry in registries)


class BoundHook:
    """A hook that is called with its module as first argument, without keeping the module alive.

    A hook may be in its own module's registries, or on a node of the tape, neither of which may own
    the module. Copying or pickling it together with its module binds the copy to the copied module.

    Args:
        hook: The function.
        module: Its first argument; without a module, the hook is called without it.
    """

    def __init__(self, hook: Callable[..., Any], module: ModuleState | None = None) -> None:
        functools.update_wrapper(self, hook)
        self.hook = hook
        self.with_module = module is not None
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError(f"the module of the hook {self.hook!r} no longer exists")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> Kwargs:
        module = self.module() if self.with_module else None
        return {"hook": self.hook, "with_module": self.with_module, "module": module}

    def __setstate__(self, state: Kwargs) -> None:
        self.hook: Callable[..., Any] = state["hook"]
        self.with_module: bool = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError(f"the module of the hook {self.hook!r} no longer exists")
            self.module: weakref.ReferenceType[ModuleState] = weakref.ref(state["module"])
