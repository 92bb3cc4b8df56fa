"""Running a program and writing its results, so that an interrupt comes before or after both.

A program may overwrite the arrays that it is given, so whoever loses its results has lost the old
values too. Python raises KeyboardInterrupt, and what else arrives from outside, as soon as a call
returns, before the result has a name. So results are collected by a method of a list, which Python
does not interrupt, and writing is repeated if it is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

# An exception that comes again and again is the writing's own.
_TRIES = 4


def run(program: Callable[..., Any], arguments: Sequence[Any], write: Callable[[Any], Any]) -> Any:
    """Call ``program(*arguments)`` and ``write`` with its result, both or neither.

    Args:
        program: A compiled function.
        arguments: Its arguments, some of which it may overwrite.
        write: Puts its results where they belong; must be able to begin again.

    Returns:
        What ``write`` gives.
    """
    results: list[Any] = []
    try:
        results.extend(starmap(program, (arguments,)))
        return write(results[0])
    except BaseException:
        if results:
            _write_all(write, results[0])
        raise


def _write_all(write: Callable[[Any], Any], result: Any) -> None:
    for attempt in range(_TRIES):
        try:
            write(result)
        except BaseException:
            if attempt == _TRIES - 1:
                raise
        else:
            return
