"""Tracebacks of errors that leave public functions, without the frames of flambeau and JAX.

Public functions call `trim` on an error that passes through them, so that a traceback shows the
lines of the user's program and ends with the message. ``FLAMBEAU_TRACEBACKS=full`` in the
environment keeps all frames.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import os
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

import jax
import jaxlib

from flambeau.core.support.errors import is_on_purpose, on_purpose

_Function = TypeVar("_Function", bound=Callable[..., Any])

#: Whether tracebacks keep all frames.
is_full: bool = os.environ.get("FLAMBEAU_TRACEBACKS", "") == "full"

#: The folders of flambeau and of JAX. With a separator at the end, since other folders may begin
#: with the same name.
OWN_FOLDERS: tuple[str, ...] = tuple(
    os.path.join(folder, "")
    for folder in (
        Path(__file__).parents[2],
        Path(jax.__file__ or "").parent,
        Path(jaxlib.__file__ or "").parent,
    )
)
# Python's own code around cached properties and context managers, and below `save`.
_BETWEEN = (functools.__file__, contextlib.__file__, pickle.__file__)
# Errors of these types that no statement raises in flambeau's code are faults of flambeau's.
_ACCIDENTS = (AssertionError, AttributeError, KeyError, NameError, RecursionError)
_RAISE = dis.opmap["RAISE_VARARGS"]
_OF_JAX = "For simplicity, JAX has removed its internal frames"


def trim(error: BaseException) -> None:
    """Remove the frames of flambeau and JAX from the traceback of ``error``, which is re-raised.

    Errors that were handled inside flambeau are removed from its context too. All frames of an
    error that looks like a fault of flambeau's are kept.
    """
    if is_full:
        return
    kept, innermost = _frames_of_others(error)
    if innermost is not None and type(error) in _ACCIDENTS and not is_on_purpose(error):
        if not _is_raised(error, innermost):
            return
        # The next function that it leaves no longer finds the statement.
        on_purpose(error)
    found = None
    for step in reversed(kept):
        found = TracebackType(found, step.tb_frame, step.tb_lasti, step.tb_lineno)
    error.__traceback__ = found
    context = error.__context__
    while context is not None and not _frames_of_others(context)[0]:
        context = error.__context__ = context.__context__
    notes: list[str] = getattr(error, "__notes__", [])
    notes[:] = [each for each in notes if _OF_JAX not in each]


def _frames_of_others(
    error: BaseException,
) -> tuple[list[TracebackType], TracebackType | None]:
    """The frames outside of flambeau and JAX, and the innermost one if it is inside."""
    kept: list[TracebackType] = []
    step, innermost = error.__traceback__, None
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        innermost = step if file.startswith(OWN_FOLDERS) else None
        if innermost is None and file not in _BETWEEN:
            kept.append(step)
        step = step.tb_next
    return kept, innermost


def _is_raised(error: BaseException, step: TracebackType) -> bool:
    """Whether a ``raise`` statement has raised ``error`` in a frame, or an assertion that talks."""
    is_statement = step.tb_frame.f_code.co_code[step.tb_lasti] == _RAISE
    return is_statement and not (isinstance(error, AssertionError) and not error.args)


def line_in(file: str, line: int | None) -> str:
    """The short text for a line of a file, such as ``train.py:12``."""
    return f"{Path(file).name}:{line}"


def user_line() -> str:
    """The innermost line that runs now and is not flambeau's; see `line_in`."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OWN_FOLDERS):
        frame = frame.f_back
    return line_in(frame.f_code.co_filename, frame.f_lineno)


def trimmed(function: _Function) -> _Function:
    """A decorator: errors that leave the function are trimmed."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    return call  # type: ignore[return-value]


class _Place(NamedTuple):
    """The place of a failed call among modules.

    Attributes:
        error: The id of the error.
        outer: A weak reference to the outermost module so far.
        path: The name of the innermost one in it.
        kind: The class of the innermost one.
        note: The note that says so.
    """

    error: int
    outer: weakref.ref[Any]
    path: str
    kind: str
    note: str


class _Last(threading.local):
    """The place of the last error of a thread, which the error itself does not hold.

    It would be pickled, and kept, with the model.
    """

    place: _Place | None = None


_last = _Last()


def blame(error: BaseException, module: Any) -> None:
    """Note the path and the class of the module whose call has raised ``error``, and `trim` it.

    The innermost module is noted; each module around it adds its own name for the next one inside.
    One that does not have the next one as a submodule is noted by itself.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    place, name = _last.place, None
    if place is not None and place.error == id(error) and place.note in notes:
        inner = place.outer()
        name = next((name for name, each in module.named_modules() if each is inner), None)
    if place is None or name is None:
        note = f"in {type(module).__name__}"
        error.add_note(note)
        _last.place = _Place(id(error), weakref.ref(module), "", type(module).__name__, note)
    elif name:
        path = f"{name}.{place.path}".rstrip(".")
        note = f"in {path} ({place.kind})"
        notes[notes.index(place.note)] = note
        _last.place = place._replace(outer=weakref.ref(module), path=path, note=note)
    trim(error)
