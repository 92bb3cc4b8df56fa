"""Futures, under the names of `torch.futures`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from flambeau._absent import Absent as _Absent

__all__ = ["Future", "collect_all", "wait_all"]

__getattr__: _Absent = _Absent(__name__)

_T = TypeVar("_T")
_S = TypeVar("_S")


class Future(Generic[_T]):
    """A value that is set once, by any thread.

    Args:
        devices: Accepted for compatibility: whatever reads a tensor waits for its device.

    >>> from flambeau import Future
    >>> future = Future()
    >>> doubled = future.then(lambda done: done.value() * 2)
    >>> future.set_result(3)
    >>> doubled.wait()
    6
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        self._changed = threading.Condition()
        self._is_done = False
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[_T]], Any]] = []

    def done(self) -> bool:
        """Whether there is a value or an exception."""
        return self._is_done

    def wait(self) -> _T:
        """Wait for the value and return it, or raise the exception."""
        with self._changed:
            self._changed.wait_for(self.done)
        return self._outcome()

    def value(self) -> _T:
        """Return the value or raise the exception.

        Raises:
            RuntimeError: The future is not done.
        """
        if not self._is_done:
            raise RuntimeError("the Future has no value yet; wait() waits for it")
        return self._outcome()

    def _outcome(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def set_result(self, result: _T) -> None:
        """Set the value.

        Raises:
            RuntimeError: There is a value already.
        """
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an exception instead of a value.

        Raises:
            RuntimeError: There is a value already.
            TypeError: ``result`` is not an exception.
        """
        if not isinstance(result, BaseException):
            raise TypeError(f"expected an exception, got {type(result).__name__}; see set_result()")
        self._finish(None, result)

    def _finish(self, result: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._is_done:
                raise RuntimeError("the Future is marked completed already; it is set once")
            self._result, self._error, self._is_done = result, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for each in callbacks:
            self._call(each)

    def _call(self, callback: Callable[[Future[_T]], Any]) -> None:
        try:
            callback(self)
        except Exception:
            # The thread that sets the value must not fail because of a callback.
            logging.getLogger(__name__).exception("a callback of a Future failed")

    def add_done_callback(self, callback: Callable[[Future[_T]], Any]) -> None:
        """Call ``callback(self)`` when the future is done; its errors are logged."""
        with self._changed:
            if not self._is_done:
                self._callbacks.append(callback)
                return
        self._call(callback)

    def then(self, callback: Callable[[Future[_T]], _S]) -> Future[_S]:
        """A future for the result of ``callback(self)``, which runs when this one is done."""
        result: Future[_S] = Future()

        def follow(done: Future[_T]) -> None:
            try:
                found = callback(done)
            except Exception as error:  # noqa: BLE001
                result.set_exception(error)
            else:
                result.set_result(found)

        self.add_done_callback(follow)
        return result


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of these futures, done when all of them are."""
    result: Future[list[Future[Any]]] = Future()
    given = list(futures)
    if not given:
        result.set_result(given)
        return result
    lock, left = threading.Lock(), [len(given)]

    def count(done: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            is_last = left[0] == 0
        if is_last:
            result.set_result(given)

    for each in given:
        each.add_done_callback(count)
    return result


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """Wait for all futures and return their values; raises the first exception."""
    return [each.wait() for each in collect_all(futures).wait()]
