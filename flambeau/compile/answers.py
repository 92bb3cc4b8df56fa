"""What a function's questions about tensors' values were answered, so that it can become a program.

``if tensor:`` and ``int(tensor)`` need a value, which a trace does not have. Where such a function
may run eagerly, one call does, and each answer that the user's code gets is noted (`Learning`). The
next trace takes these for granted (`Telling`), and its program computes the values that were asked
for beside everything else. They are compared before anything is written: with other answers the
call leaves nothing behind (`OtherAnswersError`), and runs eagerly.

Numbers often differ at each call: one is taken for granted if two calls in a row have found it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.core import Tracer

from flambeau.compile.errors import OWN_FOLDERS
from flambeau.core import host
from flambeau.core.modes import modes

__all__: list[str] = []

# Where a question passes through on its way from the code that asks.
_ON_THE_WAY = (host.__file__, __file__)


class Answer(NamedTuple):
    """A value that Python was told.

    Attributes:
        code: The code that asked,
        at: and the line.
        value: A scalar of NumPy's.
    """

    code: CodeType
    at: int
    value: Any


class OtherAnswersError(Exception):
    """A program took answers for granted that are others in this call; it has written nothing."""


class Learning:
    """Notes the answers of a call that runs eagerly, inside a ``with`` block."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def __enter__(self) -> Learning:
        self._outer, modes.asking = modes.asking, self
        return self

    def __exit__(self, *exception: object) -> None:
        modes.asking = self._outer

    def scalar(self, array: Any, find: Callable[[], Any]) -> Any:
        """The value that ``find`` gives, noted."""
        found = find()
        place = _place()
        if place is not None:
            self.answers.append(Answer(*place, found))
        return found


class Telling:
    """Answers the questions of a trace as an earlier call was answered, in a ``with`` block.

    Attributes:
        asked: The values in question, in order: tracers, of which the program makes outputs.
        told: What the trace was told of them.
    """

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = answers
        self.asked: list[Any] = []
        self.told: list[Any] = []
        self._next = 0

    def __enter__(self) -> Telling:
        self._outer, modes.asking = modes.asking, self
        return self

    def __exit__(self, *exception: object) -> None:
        modes.asking = self._outer

    def scalar(self, array: Any, find: Callable[[], Any]) -> Any:
        """The answer to the next question; what ``find`` does where it is another question."""
        place = _place()
        if place is None or self._next == len(self.answers):
            return find()
        answer = self.answers[self._next]
        if place != (answer.code, answer.at):
            return find()
        self._next += 1
        if not isinstance(array, Tracer):
            return find()
        self.asked.append(array)
        self.told.append(answer.value)
        return answer.value


def settled(answers: Sequence[Answer], before: Sequence[Answer]) -> Iterator[Answer]:
    """The answers of a call up to the first number that the call before it was not told as well."""
    for number, answer in enumerate(answers):
        if answer.value.dtype.kind != "b" and [*before[number : number + 1]] != [answer]:
            return
        yield answer


def checked(
    executable: Callable[..., Any], positions: Sequence[int], told: Sequence[Any]
) -> Callable[..., Any]:
    """A program that fails where values among its results are others than the trace was told.

    Args:
        executable: The program.
        positions: Of the values among its results.
        told: What they must be.

    Returns:
        A function like ``executable``, which may raise `OtherAnswersError`.
    """

    def run(*arrays: Any) -> Any:
        results = executable(*arrays)
        values = jax.device_get([results[each] for each in positions])
        for value, answer in zip(values, told, strict=True):
            # By their bytes: -0.0 is another number than 0.0 to Python, and NaN is itself.
            if np.asarray(value).astype(answer.dtype).tobytes() != answer.tobytes():
                raise OtherAnswersError
        return results

    return run


def _place() -> tuple[CodeType, int] | None:
    """The user's code that asks, and the line; ``None`` where flambeau's or JAX's does."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in _ON_THE_WAY:
        frame = frame.f_back
    if frame is None or frame.f_code.co_filename.startswith(OWN_FOLDERS):
        return None
    return frame.f_code, frame.f_lineno
