"""Modes that belong to a thread: gradient recording, inference, default device, active trace."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any


class _ThreadModes(threading.local):
    """Modes of the current thread, which operators read; class attributes are the defaults.

    Attributes:
        grad_enabled: Operators record nodes on the tape; always false inside `inference_mode`.
        grad_mode: The value of `is_grad_enabled`.
        inference: Inside `inference_mode`.
        trace: The `flambeau.core.values.trace.Trace` that is recording, or ``None``.
        inside: The innermost `flambeau.core.values.inside.Block`, if there is any.
        packing: The `flambeau.core.tape.packing.Hooks` for tensors that the tape saves, if any.
        packing_refused: The error for an attempt to set such hooks; ``None`` where it is allowed.
        level: The `flambeau.core.values.dual.Level` that is open, if any.
        dual: The open level if operators propagate tangents; ``None`` otherwise.
        pushing: Inside a function that `jax.jvp` differentiates forward.
        autocast: Casts the inputs of operators inside `flambeau.autocast`; ``None`` outside.
        functions: The `TorchFunctionMode` objects, the innermost last.
        exporting: Inside `flambeau.export.export`.
        asking: The object that is notified of each read of a tensor's value, if any; see
            `flambeau.compile.answers`.
        device: The device that factories use when given none; ``None`` means the CPU.
        device_stack: Devices of the ``with device(...)`` blocks around the current line.
    """

    grad_enabled = True
    grad_mode = True
    inference = False
    trace: Any = None
    inside: Any = None
    packing: Any = None
    packing_refused: str | None = None
    autocast: Any = None
    level: Any = None
    pushing = False
    dual: Any = None
    functions: tuple[Any, ...] = ()
    exporting = False
    asking: Any = None
    device: Any = None
    overrides_disabled = 0
    multithreading = True


modes: _ThreadModes = _ThreadModes()


class ContextDecorator:
    """A context manager that also decorates functions and generators, one fresh entry per call."""

    def clone(self) -> ContextDecorator:
        """A new manager with the same settings, so that recursive calls do not share state."""
        return self.__class__()

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __enter__")

    def __exit__(self, *exception: object) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not define __exit__")

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Run ``function`` inside this mode at every call."""
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped

    def _wrap_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            generator = function(*args, **kwargs)
            send, value = generator.send, None
            while True:
                # The mode holds while the generator runs, never while its consumer does.
                try:
                    with self.clone():
                        item = send(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    value, send = (yield item), generator.send
                except GeneratorExit:
                    with self.clone():
                        generator.close()
                    raise
                except BaseException as error:  # noqa: BLE001 (the generator's to handle)
                    value, send = error, generator.throw

        return wrapped


def _set(grad_mode: bool, inference: bool) -> None:
    modes.grad_mode, modes.inference = grad_mode, inference
    modes.grad_enabled = grad_mode and not inference


class _GradMode(ContextDecorator):
    """Saves the gradient modes on entry and restores them on exit."""

    def __enter__(self) -> None:
        self._before = (modes.grad_mode, modes.inference)
        self._enter()

    def _enter(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not define its mode")

    def __exit__(self, *exception: object) -> None:
        _set(*self._before)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # ``@no_grad`` without parentheses receives the function itself.
        if args and callable(args[0]) and not isinstance(args[0], type) and cls._bare_decorator:
            return cls()(args[0])
        return super().__new__(cls)

    _bare_decorator = False


class no_grad(_GradMode):
    """Operators inside record no gradient. Context manager and decorator, per thread.

    >>> import flambeau
    >>> x = flambeau.ones(2, requires_grad=True)
    >>> with flambeau.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    _bare_decorator = True

    def _enter(self) -> None:
        _set(False, modes.inference)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Run ``function`` in this mode at every call."""
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            # Inlines `__enter__` and `__exit__`, without an object that holds the mode before.
            before = modes.grad_mode, modes.inference
            modes.grad_mode = modes.grad_enabled = False
            try:
                return function(*args, **kwargs)
            finally:
                _set(*before)

        return wrapped


class enable_grad(_GradMode):
    """Operators inside record gradients, also within `no_grad`, but not within `inference_mode`."""

    _bare_decorator = True

    def _enter(self) -> None:
        _set(True, modes.inference)


class set_grad_enabled(_GradMode):
    """Switch recording on or off, at once when called as a function, or for a ``with`` block."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled(): mode must be True or False, got {mode!r:.80}")
        self.mode = mode
        self._before = (modes.grad_mode, modes.inference)
        self.__enter__()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        # Used as a decorator, not as a switch.
        self.__exit__()
        return super().__call__(function)

    def __enter__(self) -> None:
        _set(self.mode, modes.inference)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"

    def clone(self) -> set_grad_enabled:
        """A new manager for the same mode."""
        return self.__class__(self.mode)


class inference_mode(_GradMode):
    """`no_grad` whose results can never take part in a recorded computation.

    Args:
        mode: ``False`` switches recording back on inside an inference block.
    """

    _bare_decorator = True

    def __init__(self, mode: Any = True) -> None:
        self.mode: bool = bool(mode)

    def _enter(self) -> None:
        _set(not self.mode, self.mode)

    def clone(self) -> inference_mode:
        """A new manager for the same mode."""
        return self.__class__(self.mode)


class kept_modes:
    """A block that restores the modes at its end, even if code inside does not.

    For the user's code that backward runs, hooks above all.
    """

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = (
            modes.grad_mode, modes.inference, modes.packing, modes.packing_refused, modes.autocast,
        )  # fmt: skip

    def __exit__(self, *exception: object) -> None:
        grad_mode, inference, modes.packing, modes.packing_refused, modes.autocast = self._before
        _set(grad_mode, inference)


@contextlib.contextmanager
def autocast_by(state: Any) -> Iterator[None]:
    """A block in which ``state`` is `modes.autocast`; ``None`` for none."""
    before, modes.autocast = modes.autocast, state
    try:
        yield
    finally:
        modes.autocast = before


class set_multithreading_enabled(ContextDecorator):
    """Set whether backward may use its own threads, permanently or for a ``with`` block.

    It never does: gradients are computed in the thread that asks for them. The mode is kept for
    programs that ask `is_multithreading_enabled`.

    Args:
        mode: The value of `is_multithreading_enabled` on this thread.
    """

    def __init__(self, mode: bool) -> None:
        self.mode: bool = bool(mode)
        self._before = modes.multithreading
        modes.multithreading = self.mode

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Run ``function`` in this mode at every call."""
        self.__exit__()
        return super().__call__(function)

    def clone(self) -> set_multithreading_enabled:
        """A new manager for the same mode."""
        return self.__class__(self.mode)

    def __enter__(self) -> None:
        modes.multithreading = self.mode

    def __exit__(self, *exception: object) -> None:
        modes.multithreading = self._before


def is_multithreading_enabled() -> bool:
    """The last argument of `set_multithreading_enabled` on this thread; true by default."""
    return modes.multithreading


def is_grad_enabled() -> bool:
    """Whether this thread records gradients, were it not for `inference_mode`."""
    return modes.grad_mode


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside `inference_mode`."""
    return modes.inference
