"""Tensors' values that Python asks for, so that functions with ``if tensor:`` can be compiled.

``if tensor:`` and ``int(tensor)`` need a value, which a trace does not have. A function that may
run eagerly does so once, and each value that Python asks for is recorded (`Learning`). The next
trace assumes these values (`Telling`), and its program computes them beside everything
else. They are compared before anything is written: if one differs, the call changes nothing
(`OtherAnswersError`) and runs eagerly.

Numbers often differ at each call: one is assumed if two calls in a row have found it.
A trace is told how many elements a mask picks only if it needs to know, as for ``len(x[mask])``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from flambeau.compile.guarding.changes import Change
from flambeau.compile.guarding.freezing import freeze
from flambeau.compile.guarding.value_text import text_of
from flambeau.core.support.modes import modes
from flambeau.core.support.tracebacks import OWN_FOLDERS, line_in
from flambeau.core.values import host

__all__: list[str] = []

# Files whose frames lie between the code that asks and the tensor's value.
_BETWEEN = (host.__file__, __file__)
# Stands for the function that asks how many elements a mask picks.
_COUNT = "count"


class Place(NamedTuple):
    """The origin of a question.

    Attributes:
        code: The user's code.
        line: The line in its file.
        function: The function that asks: the user's own, or one of flambeau's that it calls.
    """

    code: CodeType
    line: int
    function: str


class Answer(NamedTuple):
    """A value that Python asked for.

    Attributes:
        place: The origin of the question.
        value: A NumPy scalar or array; ``None`` if a trace is not to know it.
    """

    place: Place
    value: Any

    @property
    def is_count(self) -> bool:
        """Whether it is the number of elements that a mask picks."""
        return self.place.function == _COUNT

    def is_among(self, others: Sequence[Answer]) -> bool:
        """Whether one of ``others`` is equal to it, bit by bit."""
        return any(are_same([self], [other]) for other in others)

    def change(self, now: Any) -> Change:
        """The change of the value to ``now``."""
        line = line_in(self.place.code.co_filename, self.place.line)
        name = f"the value that Python asks for at {line}"
        return Change.of(name, _text_of(self.value), _text_of(now))


def are_same(answers: Sequence[Answer], others: Sequence[Answer]) -> bool:
    """Whether two calls got the same answers, bit by bit."""
    return len(answers) == len(others) and all(
        one.place == other.place and _is_bitwise_equal(one.value, other.value)
        for one, other in zip(answers, others, strict=True)
    )


def _text_of(value: Any) -> str:
    return str(value) if value.ndim == 0 else text_of(freeze(value))


class OtherAnswersError(Exception):
    """A value that the program assumes differs in this call; nothing was written.

    Args:
        change: The difference.
    """

    def __init__(self, change: Change) -> None:
        super().__init__(change.line)
        self.change = change


class FailedCheckError(Exception):
    """A check of `compiler.checks` has failed; nothing was written."""


class _Block:
    """A ``with`` block that gives the values that Python asks for."""

    def __enter__(self) -> Self:
        self._outer, modes.asking = modes.asking, self
        return self

    def __exit__(self, *exception: object) -> None:
        modes.asking = self._outer


class Learning(_Block):
    """Records the answers of a call that runs eagerly."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def value(self, array: Any, find: Callable[[], Any]) -> Any:
        """The value that ``find`` gives, recorded."""
        value = find()
        place = _place()
        if place is not None:
            # A copy, since the array may be overwritten.
            self.answers.append(Answer(place, np.array(value)[()]))
        return value

    def note_count(self, count: int) -> None:
        """Record how many elements a mask picks."""
        place = _place(_COUNT)
        if place is not None:
            self.answers.append(Answer(place, np.int64(count)))


class Telling(_Block):
    """Answers the questions of a trace as an earlier call was answered.

    Attributes:
        asked: The values in question, in order: tracers, which the program returns.
        told: The answer to each.
    """

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = answers
        self.asked: list[Any] = []
        self.told: list[Answer] = []
        self._next = 0

    def value(self, array: Any, find: Callable[[], Any]) -> Any:
        """The next recorded answer to this question; the result of ``find`` if there is none."""
        answer = self._next_at(_place())
        if answer is None or not isinstance(array, Tracer):
            return find()
        return self._tell(array, answer)

    def count(self, mask: Any) -> int | None:
        """The number of elements that a traced mask picks, if the next recorded answer tells it."""
        answer = self._next_at(_place(_COUNT))
        if answer is None or answer.value is None:
            return None
        return int(self._tell(jnp.sum(mask, dtype=np.int64), answer))

    def note_count(self, count: int) -> None:
        """Ignore a mask that the trace knows: it picks as many elements at each call."""

    def _next_at(self, place: Place | None) -> Answer | None:
        # Skip questions that are asked in eager calls only.
        for number in range(self._next, len(self.answers)):
            if self.answers[number].place == place:
                self._next = number + 1
                return self.answers[number]
        return None

    def _tell(self, value: Any, answer: Answer) -> Any:
        # `bool(tensor)` and `item()` take the only element of a tensor of any shape.
        is_alike = value.size == answer.value.size
        self.asked.append(value.reshape(answer.value.shape) if is_alike else value)
        self.told.append(answer)
        return answer.value


def settled(answers: Sequence[Answer], before: Sequence[Answer]) -> Iterator[Answer]:
    """The answers of a call, up to the first number that the call before it did not get too.

    Counts that differ do not end them, since most traces do without.
    """
    for number, answer in enumerate(answers):
        is_choice = answer.value.dtype.kind == "b" and answer.value.ndim == 0
        if is_choice or answer.is_among(before[number : number + 1]):
            yield answer
        elif answer.is_count:
            yield answer._replace(value=None)
        else:
            return


def checked(
    executable: Callable[..., Any], positions: Sequence[int], told: Sequence[Answer]
) -> Callable[..., Any]:
    """``executable``, raising `OtherAnswersError` where results differ from ``told``.

    Args:
        executable: The program.
        positions: The positions of the compared values among its results.
        told: The answers that the trace has assumed.
    """

    def run(*arrays: Any) -> Any:
        results = executable(*arrays)
        values = jax.device_get([results[each] for each in positions])
        for value, answer in zip(values, told, strict=True):
            now = np.asarray(value).astype(answer.value.dtype)
            if not _is_bitwise_equal(now, answer.value):
                raise OtherAnswersError(answer.change(now))
        return results

    return run


def required(executable: Callable[..., Any], position: int, is_nested: bool) -> Callable[..., Any]:
    """``executable``, raising `FailedCheckError` where a result is false.

    Args:
        executable: The program.
        position: The position of this result.
        is_nested: Whether the results are followed by residuals; see `outputs.split`.
    """

    def run(*arrays: Any) -> Any:
        results = executable(*arrays)
        if not jax.device_get((results[0] if is_nested else results)[position]):
            raise FailedCheckError
        return results

    return run


def _is_bitwise_equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    # -0.0 differs from 0.0, and NaN equals itself.
    is_alike = one.shape == other.shape and one.dtype == other.dtype
    return is_alike and one.tobytes() == other.tobytes()


def _place(function: str | None = None) -> Place | None:
    """The origin of a question; ``None`` if no user's code is on the stack.

    Args:
        function: Stands for the function that asks.
    """
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename in _BETWEEN:
        frame = frame.f_back
    asking = frame
    while frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDERS):
        frame = frame.f_back
    if frame is None or asking is None:
        return None
    return Place(frame.f_code, frame.f_lineno, function or asking.f_code.co_qualname)
