"""Errors that an operator's own code raises on purpose.

`core/operators/dispatch.py` passes these on to the caller unchanged. Any other TypeError,
ValueError or the like inside an operator comes from JAX or Python by accident, and becomes a
RuntimeError that lists the operands. RuntimeError needs no mark: it is always raised on purpose.
"""

from __future__ import annotations

import builtins
from typing import TypeVar

__all__ = ["IndexError", "TypeError", "ValueError", "is_on_purpose", "on_purpose"]

_Error = TypeVar("_Error", bound=BaseException)

_MARK = "_flambeau_raised_on_purpose"


def IndexError(message: str) -> builtins.IndexError:
    """Python's IndexError: a position or a dimension is out of range."""
    return on_purpose(builtins.IndexError(message))


def TypeError(message: str) -> builtins.TypeError:
    """Python's TypeError: an argument is of a type that the operator does not take."""
    return on_purpose(builtins.TypeError(message))


def ValueError(message: str) -> builtins.ValueError:
    """Python's ValueError: an argument has a value that the operator does not take."""
    return on_purpose(builtins.ValueError(message))


def on_purpose(error: _Error) -> _Error:
    """``error``, marked as one that refuses an operator's arguments."""
    setattr(error, _MARK, True)
    return error


def is_on_purpose(error: BaseException) -> bool:
    """Whether an operator has raised an error to refuse its arguments."""
    return getattr(error, _MARK, False)
