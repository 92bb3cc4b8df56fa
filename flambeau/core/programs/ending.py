"""Work on threads of flambeau's own, which is given up when the process ends.

Python waits at its end for a thread that is not a daemon. A daemon's thread would be stopped when
the compiler returns to Python, which aborts the process. So such work asks now and then whether to
go on; only a compilation that runs is waited for.
"""

from __future__ import annotations

import threading

from flambeau.core.types import Function


class EndedError(Exception):
    """The main thread has ended, so the work is not needed, unless another thread asks for it."""


class _Here(threading.local):
    is_beside = False


_here = _Here()


def thread_for(function: Function, name: str, *arguments: object) -> threading.Thread:
    """A running thread that calls ``function``, in which `check` may raise."""

    def run() -> None:
        _here.is_beside = True
        function(*arguments)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    return thread


def check() -> None:
    """Give up the work of a thread of `thread_for` if the main thread has ended.

    Raises:
        EndedError: It has.
    """
    if _here.is_beside and not threading.main_thread().is_alive():
        raise EndedError
