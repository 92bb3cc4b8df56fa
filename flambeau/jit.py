"""What models ask of TorchScript: there is none here, and these say so.

`flambeau.compile` is what makes a function fast. What is decorated for TorchScript stays as it is;
tracing, and saving programs, are absent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from flambeau._absent import Absent as _Absent

__all__ = [
    "Final",
    "annotate",
    "export",
    "ignore",
    "is_scripting",
    "is_tracing",
    "script",
    "script_if_tracing",
    "unused",
]

__getattr__ = _Absent(__name__)

_Scripted = TypeVar("_Scripted")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def is_scripting() -> bool:
    """``False``: no function is ever compiled to TorchScript."""
    return False


def is_tracing() -> bool:
    """``False``: no function is ever traced for TorchScript; see `flambeau.compiler`."""
    return False


def script(obj: _Scripted, **kwargs: Any) -> _Scripted:
    """The function, class or module given, as it is: it computes the same by Python."""
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


def annotate(the_type: Any, the_value: Any) -> Any:
    """``the_value``, as it is."""
    return the_value


def _unchanged(fn: _Function) -> _Function:
    return fn
