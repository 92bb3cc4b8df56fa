"""Errors that an operator's own code raises on purpose.

`core/dispatch.py` gives these to the caller as they are. Any other TypeError, ValueError or the
like inside an operator is an accident of JAX's or Python's, and becomes a RuntimeError that says
which operands the operator was given. RuntimeError needs no class here: it is always on purpose.
"""

from __future__ import annotations

import builtins
from typing import Any, ClassVar

__all__ = ["IndexError", "OperatorError", "TypeError", "ValueError"]


class OperatorError(Exception):
    """An operator refuses its arguments."""


class _NamedAsInPython(OperatorError):
    """Base of errors that are one of Python's, under the same name in tracebacks and pickles."""

    _of_python: ClassVar[type[Exception]]

    def __init_subclass__(cls) -> None:
        cls._of_python = getattr(builtins, cls.__name__)
        cls.__module__ = "builtins"

    def __reduce__(self) -> tuple[Any, ...]:
        return self._of_python, self.args


class IndexError(_NamedAsInPython, builtins.IndexError):
    """A position or a dimension is out of range."""


class TypeError(_NamedAsInPython, builtins.TypeError):
    """An argument is of a type that the operator does not take."""


class ValueError(_NamedAsInPython, builtins.ValueError):
    """An argument has a value that the operator does not take."""
