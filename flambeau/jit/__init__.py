"""TorchScript's functions, as far as models call them; there is no TorchScript here.

`flambeau.compile` is what makes a function fast. What is decorated for TorchScript stays as it is,
what is traced is compiled, and programs are not saved.
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
    Error,
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    ScriptWarning,
    TopLevelTracedModule,
    TracedModule,
    TracerWarning,
    TracingCheckError,
    _scripted,
)
from flambeau.jit.settings import (
    enable_onednn_fusion,
    fuser,
    onednn_fusion_enabled,
    optimized_execution,
    set_fusion_strategy,
    strict_fusion,
)
from flambeau.jit.tracing import (
    freeze,
    load,
    optimize_for_inference,
    save,
    trace,
    trace_module,
)
from flambeau.nn.module import Module

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "RecursiveScriptModule",
    "ScriptFunction", "ScriptModule", "ScriptWarning", "TopLevelTracedModule", "TracedModule",
    "TracerWarning", "TracingCheckError", "annotate", "enable_onednn_fusion", "export", "fork",
    "freeze", "fuser", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
    "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution", "save", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "trace",
    "trace_module", "unused", "wait",
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
    """The function, class or module given, as it is: it computes the same by Python.

    A module counts as a `ScriptModule` from then on.
    """
    if builtins.isinstance(obj, Module):
        _scripted.add(obj)
    return obj


def script_if_tracing(fn: _Function) -> _Function:
    """The function that it decorates, as it is."""
    return fn


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function that it decorates, as it is."""
    return drop if callable(drop) else _unchanged


def unused(fn: _Function) -> _Function:
    """The function that it decorates, as it is."""
    return fn


def export(fn: _Function) -> _Function:
    """The function that it decorates, as it is."""
    return fn


def script_method(fn: _Function) -> _Function:
    """The method that it decorates, as it is."""
    return fn


def interface(obj: _Scripted) -> _Scripted:
    """The class that it decorates, as it is."""
    return obj


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """A future with what ``func(*args, **kwargs)`` gives, which is called at once.

    So does PyTorch outside of TorchScript; JAX does not wait for a device in any case.

    >>> wait(fork(lambda a, b: a + b, 1, b=2))
    3
    """
    future: Future[Any] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[Any]) -> Any:
    """The value of a future that `fork` has given.

    Raises:
        TypeError: It is no future.
    """
    if not builtins.isinstance(future, Future):
        raise TypeError(f"wait(): future must be a Future, got {type(future).__name__}")
    return future.wait()


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether ``obj`` is of a type, which may say what is in containers.

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


def annotate(the_type: Any, the_value: Any) -> Any:
    """``the_value``, as it is."""
    return the_value


# Names that packages use though they are private.


def _overload(func: _Function) -> _Function:
    """The function that it decorates, as it is."""
    return func


def _overload_method(func: _Function) -> _Function:
    """The method that it decorates, as it is."""
    return func


def _script_if_tracing(fn: _Function) -> _Function:
    """The function that it decorates, as it is."""
    return fn


def _unwrap_optional(x: Any) -> Any:
    """``x``, which is not ``None``."""
    assert x is not None, "a value is None where one is expected"
    return x


def _unchanged(fn: _Function) -> _Function:
    return fn
