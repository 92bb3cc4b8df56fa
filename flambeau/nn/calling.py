"""Calling a module: its `forward`, and the hooks around it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from flambeau.core.handle import RemovableHandle
from flambeau.core.modes import modes
from flambeau.nn.gradient_hooks import GradientHooks
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


def _forward_unimplemented(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        f"{type(self).__name__} has no forward(); define it to say what calling the module computes"
    )


class Calling(Traversal):
    """The part of `Module` that runs it."""

    #: What calling the module computes; every subclass defines it.
    forward: Callable[..., Any] = _forward_unimplemented

    # What `compile` has put in the place of `_call_impl`.
    _compiled_call_impl: Callable[..., Any] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # The short cut in `__call__` must not pass over a class's own way of being called.
        if "_call_impl" in cls.__dict__ and "__call__" not in cls.__dict__:
            cls.__call__ = _call_in_full

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Almost every call finds nothing registered anywhere, and takes the short cut.
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
            )
        except KeyError as missing:
            raise AttributeError(
                f"cannot call a {type(self).__name__} without {missing}: call "
                "super().__init__() at the start of its __init__"
            ) from None
        if not watched:
            return self.forward(*args, **kwargs)
        return (self._compiled_call_impl or self._call_impl)(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Run the hooks and `forward`; subclasses may override it to wrap every call."""
        if modes.trace is not None:
            # What `forward` reads of the modules below, it may read without calling them.
            for module in self.modules():
                modes.trace.enter(module)
            modes.trace.watch(_global_forward_hooks, all_global_hooks)
        return _HookedCall(self, args, kwargs).run()

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before `forward`.

        Args:
            hook: What it returns, unless ``None``, replaces the positional arguments; a single
                value stands for a tuple of one.
            prepend: Call it before the hooks registered so far.
            with_kwargs: Call ``hook(module, args, kwargs)``, which returns ``None`` or both.

        Returns:
            A handle whose ``remove()`` takes the hook back.

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
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after `forward`.

        Args:
            hook: What it returns, unless ``None``, replaces the output.
            prepend: Call it before the hooks registered so far.
            with_kwargs: Call ``hook(module, args, kwargs, output)``.
            always_call: Call it also when the call raises; its own exceptions are then warnings.

        Returns:
            A handle whose ``remove()`` takes the hook back.
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
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the gradients of the inputs are computed.

        Args:
            hook: What it returns, unless ``None``, replaces ``grad_output``, a tuple with one
                entry per output.
            prepend: Call it before the hooks registered so far.

        Returns:
            A handle whose ``remove()`` takes the hook back.
        """
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` once the inputs' gradients are known.

        Args:
            hook: Takes tuples with one entry per positional argument and per output, ``None``
                where there is no gradient. What it returns, unless ``None``, replaces
                ``grad_input``.
            prepend: Call it before the hooks registered so far.

        Returns:
            A handle whose ``remove()`` takes the hook back.

        Raises:
            RuntimeError: The module has hooks of `register_backward_hook`.
        """
        self._choose_backward_kind(full=True)
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` around the node that made the output.

        Kept for older programs: where `forward` is several operators, ``grad_input`` belongs to the
        last of them only. `register_full_backward_hook` sees the module as a whole.

        Raises:
            RuntimeError: The module has hooks of `register_full_backward_hook`.
        """
        self._choose_backward_kind(full=False)
        return add_hook(self._backward_hooks, hook)

    def _choose_backward_kind(self, full: bool) -> None:
        check_backward_kind(self._is_full_backward_hook, full, f"on this {type(self).__name__}")
        self._is_full_backward_hook = full

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the calls of this module; takes what `flambeau.compile` takes."""
        from flambeau.compile import compile

        self._compiled_call_impl = compile(self._call_impl, *args, **kwargs)


def _call_in_full(self: Any, *args: Any, **kwargs: Any) -> Any:
    return (self._compiled_call_impl or self._call_impl)(*args, **kwargs)


class _HookedCall:
    """One call of a module, with all the hooks that watch it.

    Attributes:
        module: What is called.
        args, kwargs: The arguments, as the hooks so far have left them.
        result: The result, likewise; ``None`` before `forward` has returned.
        begun: Ids of the forward hooks that have been called.
    """

    __slots__ = ("args", "begun", "kwargs", "module", "result")

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module = module
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None
        self.begun: list[int] = []

    def run(self) -> Any:
        """Run everything and give the result."""
        module = self.module
        try:
            gradient_hooks = GradientHooks(module) if _watches_gradients(module) else None
            if module._forward_pre_hooks or _global_forward_pre_hooks:
                self._run_forward_pre_hooks()
            if gradient_hooks is not None:
                self.args = gradient_hooks.enter(self.args)
            self.result = module.forward(*self.args, **self.kwargs)
            if module._forward_hooks or _global_forward_hooks:
                for hook_id, hook in self._forward_hooks():
                    self.begun.append(hook_id)
                    self._run_forward_hook(hook_id, hook)
            if gradient_hooks is not None:
                self.result = gradient_hooks.leave(self.args, self.result)
        except Exception:
            self._run_always_called_hooks()
            raise
        return self.result

    def _run_forward_pre_hooks(self) -> None:
        module = self.module
        own, with_kwargs = module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs
        for hook_id, hook in (*_global_forward_pre_hooks.items(), *own.items()):
            if hook_id in with_kwargs:
                result = hook(module, self.args, self.kwargs)
                if result is not None:
                    self.args, self.kwargs = _checked_arguments(result)
            else:
                result = hook(module, self.args)
                if result is not None:
                    self.args = result if isinstance(result, tuple) else (result,)

    def _forward_hooks(self) -> tuple[tuple[int, Callable[..., Any]], ...]:
        return (*_global_forward_hooks.items(), *self.module._forward_hooks.items())

    def _run_forward_hook(self, hook_id: int, hook: Callable[..., Any]) -> None:
        module = self.module
        if (
            hook_id in module._forward_hooks_with_kwargs
            or hook_id in _global_forward_hooks_with_kwargs
        ):
            result = hook(module, self.args, self.kwargs, self.result)
        else:
            result = hook(module, self.args, self.result)
        if result is not None:
            self.result = result

    def _run_always_called_hooks(self) -> None:
        """Run the forward hooks that want to see failed calls too, if they have not run yet."""
        module = self.module
        for hook_id, hook in self._forward_hooks():
            always = (
                hook_id in module._forward_hooks_always_called
                or hook_id in _global_forward_hooks_always_called
            )
            if always and hook_id not in self.begun:
                try:
                    self._run_forward_hook(hook_id, hook)
                except Exception as error:  # noqa: BLE001 - one error is on its way already
                    warnings.warn(
                        f"a forward hook of {type(module).__name__} with always_call=True raised "
                        f"while another error was on its way, which is raised instead: {error}",
                        stacklevel=5,
                    )


def _watches_gradients(module: Any) -> Any:
    return (
        module._backward_hooks
        or module._backward_pre_hooks
        or _global_backward_hooks
        or _global_backward_pre_hooks
    )


def _checked_arguments(result: Any) -> tuple[Any, Any]:
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise RuntimeError(
        "a forward pre-hook with kwargs must return None or a tuple (args, kwargs), "
        f"but returned {result!r}"
    )
