"""Errors and warnings about functions that cannot be compiled."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import jax

from flambeau.core.support import warning
from flambeau.core.support.tracebacks import OWN_FOLDERS
from flambeau.core.values.trace import (
    AskedCountError,
    AskedValueError,
    MadeInsideError,
    TracedValueError,
)

# The errors that ask for the value of a tracer.
VALUE_ERRORS: tuple[type[Exception], ...] = (
    TracedValueError,
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.UnexpectedTracerError,
)


class CompileError(RuntimeError):
    """A function cannot become one program; the message names the line and what to do instead."""


class NotYetMadeError(CompileError):
    """A function's first call creates state that later calls use, such as an optimizer's."""


class SideEffectError(NotYetMadeError):
    """A call changes Python state; one that only sets what is set already does not."""


class CountingError(SideEffectError):
    """Each call changes numbers outside; a trace that takes them as inputs may succeed.

    Attributes:
        slots: Their places.
    """

    slots: Sequence[Any] = ()


class UnansweredError(CompileError):
    """A function asks for the value of a tensor; a trace with recorded answers may succeed.

    Attributes:
        is_count: It asks how many elements a mask picks.
    """

    is_count = False


class NumbersMatterError(Exception):
    """A trace took numbers as inputs of the program, and depends on their values all the same."""


class CompileWarning(UserWarning):
    """A part of a compiled function runs only while it is traced, or a call runs eagerly."""


def warn(message: str) -> None:
    """Give a `CompileWarning`."""
    warning.warn(message, CompileWarning)


def user_line(trace: TracebackType | None, otherwise: str | None = None) -> str:
    """The innermost line of the user's in the traceback, or ``otherwise``."""
    for frame in reversed(traceback.extract_tb(trace)):
        if not frame.filename.startswith((*OWN_FOLDERS, "<frozen")):
            code = f": {frame.line}" if frame.line else ""
            return f"{frame.filename}, line {frame.lineno}, in {frame.name}{code}"
    return "in the compiled function" if otherwise is None else otherwise


def explain(error: Exception, may_try_again: bool = True) -> CompileError:
    """The `CompileError` for an error that a trace raised.

    Args:
        error: The error.
        may_try_again: Whether a second trace, with answers, would find the same state.
    """
    line = None
    if isinstance(error, TracedValueError):
        reason, line = str(error), error.line
    else:
        reason = (
            "the value of a tensor is not known while its program is being compiled "
            f"({type(error).__name__}); compute with the tensor itself, use flambeau.where for a "
            "choice, or move this line out of the compiled function"
        )
    kind = CompileError
    if isinstance(error, MadeInsideError):
        kind = NotYetMadeError
    elif isinstance(error, AskedValueError) and may_try_again:
        kind = UnansweredError
    explained = kind(f"{user_line(error.__traceback__, line)}\n{reason}")
    if isinstance(explained, UnansweredError):
        explained.is_count = isinstance(error, AskedCountError)
    return explained


def without_frames(error: Exception) -> Exception:
    """``error`` without references to the tensors of a trace; a note tells the user's line."""
    if line := user_line(error.__traceback__, ""):
        error.add_note(f"in a compiled function: {line}")
    cause: BaseException | None = error
    while cause is not None:
        cause.__traceback__ = None
        cause = cause.__cause__ or cause.__context__
    return error


def interrupt_in(error: BaseException) -> BaseException | None:
    """The interrupt, such as Ctrl-C, that caused an ``error`` of JAX's; ``None`` if none did."""
    if not isinstance(error, Exception):
        return None
    cause: BaseException | None = error
    while isinstance(cause, Exception):
        cause = cause.__cause__
    return cause
