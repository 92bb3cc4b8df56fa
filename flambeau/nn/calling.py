"""Calling a module: its `forward`, and the hooks around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from flambeau.core.support.handle import RemovableHandle
from flambeau.core.support.modes import modes
from flambeau.core.support.tracebacks import blame
from flambeau.core.support.warning import warn
from flambeau.nn.backward_hooks import GradientHooks
from flambeau.nn.common_types import (
    Args,
    ForwardHook,
    ForwardPreHook,
    GradHook,
    GradPreHook,
    Kwargs,
)
from flambeau.nn.hooks import (
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    add_hook,
    all_global_hooks,
    check_backward_kind,
)
from flambeau.nn.traversal import Traversal


def _forward_unimplemented(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise NotImplementedError(
        f"{type(self).__name__} has no forward(); define it to say what calling the module computes"
    )


class Calling(Traversal):
    """The part of `Module` that runs it."""

    #: The computation of a call; every subclass defines it.
    forward: Callable[..., Any] = _forward_unimplemented

    # The replacement of `_call_impl` that `compile` has set.
    _compiled_call_impl: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Fast path: almost every call finds no hooks registered anywhere.
        state = self.__dict__
        try:
            watched = (
                state["_forward_hooks"]
                or state["_forward_pre_hooks"]
                or state["_backward_hooks"]
                or state["_backward_pre_hooks"]
                or _global_forward_hooks
                or _global_forward_pre_hooks
                or _global_backward_hooks
                or _global_backward_pre_hooks
                or "_compiled_call_impl" in state
                or modes.trace is not None
                # The fast path must not bypass a class's own `_call_impl`.
                or type(self)._call_impl is not _plain_call
                or "_call_impl" in state
            )
        except KeyError as missing:
            raise AttributeError(
                f"cannot call a {type(self).__name__} without {missing}: call "
                "super().__init__() at the start of its __init__"
            ) from None
        try:
            if not watched:
                return self.forward(*args, **kwargs)
            return (self._compiled_call_impl or self._call_impl)(*args, **kwargs)
        except Exception as error:
            blame(error, self)
            raise

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Run the hooks and `forward`; subclasses may override it to wrap every call."""
        if modes.trace is not None:
            # `forward` may read attributes of submodules without calling them.
            for module in self.modules():
                modes.trace.enter(module)
            modes.trace.watch(_global_forward_hooks, all_global_hooks)
        return _call_with_hooks(self, args, kwargs)

    def register_forward_pre_hook(
        self, hook: ForwardPreHook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before `forward`.

        Args:
            hook: Its result, unless ``None``, replaces the positional arguments; a single value
                means a tuple of one.
            prepend: Call it before the hooks registered so far.
            with_kwargs: Call ``hook(module, args, kwargs)``, which returns ``None`` or both.

        Returns:
            A handle whose ``remove()`` removes the hook.

        >>> from flambeau import nn
        >>> layer = nn.Identity()
        >>> with layer.register_forward_pre_hook(lambda module, args: args[0] + 1):
        ...     layer(1)
        2
        """
        return add_hook(
            self._forward_pre_hooks,
            hook,
            marks=[(self._forward_pre_hooks_with_kwargs, with_kwargs)],
            prepend=prepend,
        )

    def register_forward_hook(
        self,
        hook: ForwardHook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after `forward`.

        Args:
            hook: Its result, unless ``None``, replaces the output.
            prepend: Call it before the hooks registered so far.
            with_kwargs: Call ``hook(module, args, kwargs, output)``.
            always_call: Call it also when the call raises; its own exceptions are then warnings.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        return add_hook(
            self._forward_hooks,
            hook,
            marks=[
                (self._forward_hooks_with_kwargs, with_kwargs),
                (self._forward_hooks_always_called, always_call),
            ],
            prepend=prepend,
        )

    def register_full_backward_pre_hook(
        self, hook: GradPreHook, prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the gradients of the inputs are computed.

        Args:
            hook: Its result, unless ``None``, replaces ``grad_output``, a tuple with one
                entry per output.
            prepend: Call it before the hooks registered so far.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: GradHook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` once the inputs' gradients are known.

        Args:
            hook: Takes tuples with one entry per positional argument and per output, ``None``
                where there is no gradient. Its result, unless ``None``, replaces
                ``grad_input``.
            prepend: Call it before the hooks registered so far.

        Returns:
            A handle whose ``remove()`` removes the hook.

        Raises:
            RuntimeError: The module has hooks of `register_backward_hook`.
        """
        _choose_backward_kind(self, full=True)
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: GradHook) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` around the node that made the output.

        Kept for older programs: if `forward` runs several operators, ``grad_input`` belongs to the
        last of them only. `register_full_backward_hook` sees the module as a whole.

        Raises:
            RuntimeError: The module has hooks of `register_full_backward_hook`.
        """
        _choose_backward_kind(self, full=False)
        return add_hook(self._backward_hooks, hook)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the calls of this module; the arguments are those of `flambeau.compile`."""
        from flambeau.compile import compile

        self._compiled_call_impl = compile(self._call_impl, *args, **kwargs)


def _choose_backward_kind(module: Calling, full: bool) -> None:
    check_backward_kind(module._is_full_backward_hook, full, f"on this {type(module).__name__}")
    module._is_full_backward_hook = full


# The profiler replaces this and the next function while it runs.
_plain_call = Calling._call_impl


def _call_with_hooks(module: Calling, args: Args, kwargs: Kwargs) -> Any:
    """Run `forward` and all its hooks."""
    # Attributes of a class with `__getattr__` are slow to read.
    state = module.__dict__
    pre_hooks, forward_hooks = state["_forward_pre_hooks"], state["_forward_hooks"]
    result = None
    # Ids of the forward hooks that have been called.
    begun: list[int] = []
    try:
        gradient_hooks = GradientHooks(module) if _watches_gradients(state) else None
        if pre_hooks or _global_forward_pre_hooks:
            # Copied, since a hook may register others or remove itself.
            for hook_id, hook in (*_global_forward_pre_hooks.items(), *pre_hooks.items()):
                args, kwargs = _run_forward_pre_hook(module, hook_id, hook, args, kwargs)
        if gradient_hooks is not None:
            args = gradient_hooks.enter(args)
        result = module.forward(*args, **kwargs)
        if forward_hooks or _global_forward_hooks:
            for hook_id, hook in (*_global_forward_hooks.items(), *forward_hooks.items()):
                begun.append(hook_id)
                result = _run_forward_hook(module, hook_id, hook, args, kwargs, result)
        if gradient_hooks is not None:
            result = gradient_hooks.leave(args, result)
    except Exception:
        _run_always_called_hooks(module, begun, args, kwargs, result)
        raise
    return result


def _run_forward_pre_hook(
    module: Calling, hook_id: int, hook: Callable[..., Any], args: Args, kwargs: Kwargs
) -> tuple[Args, Kwargs]:
    """The arguments, as replaced by the hook."""
    if hook_id in module._forward_pre_hooks_with_kwargs:
        replaced = hook(module, args, kwargs)
        return (args, kwargs) if replaced is None else _checked_arguments(replaced)
    replaced = hook(module, args)
    if replaced is not None:
        args = replaced if isinstance(replaced, tuple) else (replaced,)
    return args, kwargs


def _run_forward_hook(
    module: Calling,
    hook_id: int,
    hook: Callable[..., Any],
    args: Args,
    kwargs: Kwargs,
    result: Any,
) -> Any:
    """The result, as replaced by the hook."""
    if hook_id in module._forward_hooks_with_kwargs or hook_id in _global_forward_hooks_with_kwargs:
        replaced = hook(module, args, kwargs, result)
    else:
        replaced = hook(module, args, result)
    return result if replaced is None else replaced


def _run_always_called_hooks(
    module: Calling, begun: list[int], args: Args, kwargs: Kwargs, result: object
) -> None:
    """Run the forward hooks with ``always_call``, if they have not run yet."""
    for hook_id, hook in (*_global_forward_hooks.items(), *module._forward_hooks.items()):
        always = (
            hook_id in module._forward_hooks_always_called
            or hook_id in _global_forward_hooks_always_called
        )
        if always and hook_id not in begun:
            try:
                result = _run_forward_hook(module, hook_id, hook, args, kwargs, result)
            except Exception as error:  # noqa: BLE001 - one error is on its way already
                warn(
                    f"a forward hook of {type(module).__name__} with always_call=True raised "
                    f"while another error was on its way, which is raised instead: {error}",
                )


def _watches_gradients(state: Kwargs) -> object:
    return (
        state["_backward_hooks"]
        or state["_backward_pre_hooks"]
        or _global_backward_hooks
        or _global_backward_pre_hooks
    )


def _checked_arguments(result: object) -> tuple[Args, Kwargs]:
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise RuntimeError(
        "a forward pre-hook with kwargs must return None or a tuple (args, kwargs), "
        f"but returned {result!r}"
    )
