"""A module with compiled calls, which shares everything else with the original module."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from flambeau.compile.function import CompiledFunction, compile, with_calls
from flambeau.core.support.modes import modes
from flambeau.core.support.tracebacks import trimmed
from flambeau.nn.module import Module


class CompiledModule:
    """The class of a compiled module: another handle on the module.

    Both handles share one ``__dict__``, and so parameters, submodules, hooks, modes and plain
    attributes. A program is traced through the original module, and methods of the user's classes
    are bound to the original module: if they call ``self``, as a loop that generates text does, the
    call is not compiled.
    """

    __slots__ = ()

    _calls: CompiledFunction
    _orig_mod: Module

    @trimmed
    def __call__(self, *args: object, **kwargs: object) -> Any:
        call = self._calls if modes.trace is None else self._orig_mod
        return call(*args, **kwargs)

    @property
    def program_count(self) -> int:
        """The number of compiled programs."""
        return self._calls.program_count

    @property
    def dynamo_ctx(self) -> Callable[..., Any]:
        """Compiles other functions, such as methods of the module, with the same options.

        The name is PyTorch's, and packages use it.
        """
        return functools.partial(compile, fullgraph=self._calls.fullgraph)

    def __reduce__(self) -> tuple[object, ...]:
        return self.dynamo_ctx, (self._orig_mod,)


class _MethodOfOriginal:
    """A method that is bound to the original module.

    Args:
        name: Its name.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, handle: CompiledModule | None, owner: type) -> Any:
        return getattr(owner.__mro__[2] if handle is None else handle._orig_mod, self.name)


@with_calls.register(Module)
def compiled_module(module: Module, calls: CompiledFunction) -> object:
    """Another handle on ``module``, whose calls are ``calls``.

    Args:
        module: The module, or a handle on it.
        calls: The function behind its calls.
    """
    if isinstance(module, CompiledModule):
        module = module._orig_mod
    handle = object.__new__(_class_of(type(module)))
    object.__setattr__(handle, "__dict__", vars(module))
    object.__setattr__(handle, "_calls", calls)
    object.__setattr__(handle, "_orig_mod", module)
    return handle


@functools.cache
def _class_of(cls: type) -> type:
    added = {
        name
        for each in cls.__mro__
        for name, value in vars(each).items()
        if inspect.isfunction(value) and not hasattr(Module, name)
    }
    members = {
        **{name: _MethodOfOriginal(name) for name in added if not name.startswith("__")},
        "__slots__": ("_calls", "_orig_mod"),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
    }
    return type(cls)(cls.__name__, (CompiledModule, cls), members)
