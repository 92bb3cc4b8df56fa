"""Tensors' values that Python asks for, so that functions with ``if tensor:`` can be compiled.

``if tensor:`` and ``int(tensor)`` need a value, which a trace does not have. A function that may
run eagerly does so once, and each value that the user's code asks for is recorded (`Learning`). The
next trace takes these values for granted (`Telling`), and its program computes them beside
everything else. They are compared before anything is written: if one differs, the call changes
nothing (`OtherAnswersError`) and runs eagerly.

Numbers often differ at each call: one is taken for granted if two calls in a row have found it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple, Self

import jax
import numpy as np
from jax.core import Tracer

from flambeau.compile.errors import OWN_FOLDERS
from flambeau.core import host
from flambeau.core.modes import modes

__all__: list[str] = []

# Files whose frames lie between the user's code and the tensor's value.
_BETWEEN = (host.__file__, __file__)


class Answer(NamedTuple):
    """A value that Python asked for.

    Attributes:
        code: The code that asked.
        at: The line in its file.
        value: A NumPy scalar.
    """

    code: CodeType
    at: int
    value: Any


class OtherAnswersError(Exception):
    """A value that the program takes for granted differs in this call; nothing was written."""


class _Block:
    """A ``with`` block in which `scalar` gives the values that Python asks for."""

    def __enter__(self) -> Self:
        self._outer, modes.asking = modes.asking, self
        return self

    def __exit__(self, *exception: object) -> None:
        modes.asking = self._outer


class Learning(_Block):
    """Records the answers of a call that runs eagerly."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def scalar(self, array: Any, find: Callable[[], Any]) -> Any:
        """The value that ``find`` gives, recorded."""
        value = find()
        place = _place()
        if place is not None:
            self.answers.append(Answer(*place, value))
        return value


class Telling(_Block):
    """Answers the questions of a trace as an earlier call was answered.

    Attributes:
        asked: The values in question, in order: tracers, which the program returns.
        told: The answer that the trace got for each.
    """

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = answers
        self.asked: list[Any] = []
        self.told: list[Any] = []
        self._next = 0

    def scalar(self, array: Any, find: Callable[[], Any]) -> Any:
        """The recorded answer to this question; the result of ``find`` if there is none."""
        answer = self.answers[self._next] if self._next < len(self.answers) else None
        if answer is None or _place() != (answer.code, answer.at):
            return find()
        self._next += 1
        if not isinstance(array, Tracer):
            return find()
        self.asked.append(array)
        self.told.append(answer.value)
        return answer.value


def settled(answers: Sequence[Answer], before: Sequence[Answer]) -> Iterator[Answer]:
    """The answers of a call, up to the first number that the call before it did not get too."""
    for number, answer in enumerate(answers):
        if answer.value.dtype.kind != "b" and [*before[number : number + 1]] != [answer]:
            return
        yield answer


def checked(
    executable: Callable[..., Any], positions: Sequence[int], told: Sequence[Any]
) -> Callable[..., Any]:
    """``executable``, raising `OtherAnswersError` where results differ from ``told``.

    Args:
        executable: The program.
        positions: The positions of the compared values among its results.
        told: The values that the trace has taken for granted.
    """

    def run(*arrays: Any) -> Any:
        results = executable(*arrays)
        values = jax.device_get([results[each] for each in positions])
        for value, answer in zip(values, told, strict=True):
            # By their bytes: -0.0 differs from 0.0, and NaN equals itself.
            if np.asarray(value).astype(answer.dtype).tobytes() != answer.tobytes():
                raise OtherAnswersError
        return results

    return run


def _place() -> tuple[CodeType, int] | None:
    """The user's code that asks, and the line; ``None`` if flambeau or JAX asks."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in _BETWEEN:
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(OWN_FOLDERS):
        return None
    return frame.f_code, frame.f_lineno
