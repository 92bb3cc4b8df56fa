"""Errors and warnings about functions that cannot be compiled."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import TracebackType

import jax

from flambeau.core import warning
from flambeau.core.trace import AskedValueError, MadeInsideError, TracedValueError

# With a separator at the end: other folders may begin with the same name.
OWN_FOLDERS = (
    os.path.join(Path(__file__).parent.parent, ""),
    os.path.join(Path(jax.__file__ or "").parent, ""),
)
# What JAX raises when a program asks for a value it does not have yet.
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
    """A function makes something at its first call that lives on, such as an optimizer's state."""


class UnansweredError(CompileError):
    """A function asks for the value of a tensor; answers of an eager call may help."""


class CompileWarning(UserWarning):
    """A compiled function does something that runs while it is traced only."""


def warn(message: str) -> None:
    """Give a `CompileWarning`."""
    warning.warn(message, CompileWarning)


def user_line(trace: TracebackType | None, otherwise: str | None = None) -> str:
    """The innermost line of the traceback that is the user's own, or ``otherwise``."""
    frames = traceback.extract_tb(trace)
    own = [
        frame
        for frame in frames
        if not frame.filename.startswith(OWN_FOLDERS) and not frame.filename.startswith("<frozen")
    ]
    if not own:
        return otherwise or "in the compiled function"
    frame = own[-1]
    code = f": {frame.line}" if frame.line else ""
    return f"{frame.filename}, line {frame.lineno}, in {frame.name}{code}"


def explain(error: Exception, may_try_again: bool = True) -> CompileError:
    """The `CompileError` for an error that a trace raised.

    Args:
        error: The error.
        may_try_again: Another trace, with answers, would find everything as this one did.
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
    return kind(f"{user_line(error.__traceback__, line)}\n{reason}")


def interrupt_in(error: BaseException) -> BaseException | None:
    """The interrupt, such as Ctrl-C, that JAX has made an ``error`` of its own of, if it has."""
    if not isinstance(error, Exception):
        return None
    cause: BaseException | None = error
    while isinstance(cause, Exception):
        cause = cause.__cause__
    return cause
