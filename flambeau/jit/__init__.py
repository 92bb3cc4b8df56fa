"""TorchScript's functions that models call; there is no TorchScript here.

Use `flambeau.compile` to compile. Functions decorated for TorchScript are unchanged, traced
functions are compiled, and programs cannot be saved.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import Any, Final, TypeVar, Union, get_args, get_origin

from flambeau._absent import Absent as _Absent
from flambeau.futures import Future
from flambeau.jit.script_module import (
    Attribute,
    CompilationUnit,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
    TracerWarning,
    _scripted,
)
from flambeau.jit.tracing import trace, trace_module
from flambeau.nn.module import Module

__all__ = [
    "Attribute", "CompilationUnit", "Final", "Future", "RecursiveScriptModule", "ScriptFunction",
    "ScriptModule", "TopLevelTracedModule", "TracedModule", "TracerWarning", "export", "fork",
    "ignore", "is_scripting", "is_tracing", "isinstance", "script", "trace", "trace_module",
    "unused", "wait",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)

_Scripted = TypeVar("_Scripted")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def is_scripting() -> bool:
    """``False``: no function is ever compiled to TorchScript."""
    return False


def is_tracing() -> bool:
    """``False``: no function is ever traced for TorchScript; see `flambeau.compiler`."""
    return False


def script(obj: _Scripted, **kwargs: Any) -> _Scripted:
    """Return the given function, class or module unchanged: it runs in Python.

    A module counts as a `ScriptModule` from then on.
    """
    if builtins.isinstance(obj, Module):
        _scripted.add(obj)
    return obj


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return the decorated function unchanged."""
    return drop if callable(drop) else _unchanged


def unused(fn: _Function) -> _Function:
    """Return the decorated function unchanged."""
    return fn


def export(fn: _Function) -> _Function:
    """Return the decorated function unchanged."""
    return fn


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """A future of ``func(*args, **kwargs)``, which is called immediately.

    PyTorch does the same outside of TorchScript; JAX dispatches asynchronously in any case.

    >>> from flambeau import fork, wait
    >>> wait(fork(lambda a, b: a + b, 1, b=2))
    3
    """
    future: Future[Any] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[Any]) -> Any:
    """Return the value of a future from `fork`.

    Raises:
        TypeError: ``future`` is not a future.
    """
    if not builtins.isinstance(future, Future):
        raise TypeError(f"wait(): future must be a Future, got {type(future).__name__}")
    return future.wait()


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether ``obj`` is of a type, which may be a parameterized container.

    >>> isinstance([1, 2], list[int]), isinstance([1, "a"], list[int]), isinstance(None, int | None)
    (True, False, True)
    """
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, each) for each in target_type)
    if target_type is Any:
        return True
    kind, inside = get_origin(target_type), get_args(target_type)
    if kind in (Union, types.UnionType):
        return any(isinstance(obj, each) for each in inside)
    if target_type is None or kind is None:
        return builtins.isinstance(obj, type(None) if target_type is None else target_type)
    if not builtins.isinstance(obj, kind):
        return False
    if kind is dict:
        return all(isinstance(k, inside[0]) and isinstance(v, inside[1]) for k, v in obj.items())
    if kind is tuple and not (len(inside) == 2 and inside[1] is ...):
        return len(obj) == len(inside) and all(map(isinstance, obj, inside))
    return all(isinstance(each, inside[0]) for each in obj)


def _unwrap_optional(x: Any) -> Any:
    """Return ``x``, which must not be ``None``."""
    assert x is not None, "a value is None where one is expected"
    return x


def _unchanged(fn: _Function) -> _Function:
    return fn
