"""The result of a collective with ``async_op=True``."""

from __future__ import annotations

import datetime as dt
from typing import Any

from flambeau.futures import Future

__all__ = ["Work"]


class Work:
    """A collective that has been started.

    XLA runs readers of the result after the collective, so the program need not wait. Errors are
    raised by the call of the collective.

    Args:
        source: The process that sent the tensor, if any.
        result: The tensors that have been written.
    """

    def __init__(self, source: int = -1, result: Any = ()) -> None:
        self._source = source
        self._result = [*result]

    def wait(self, timeout: dt.timedelta | None = None) -> bool:
        """``True``: the result is in the tensors."""
        return True

    def is_completed(self) -> bool:
        """``True``: see `wait`."""
        return True

    def is_success(self) -> bool:
        """``True``: a failed collective gives no `Work`."""
        return True

    def exception(self) -> None:
        """``None``: see `is_success`."""

    def synchronize(self) -> None:
        """Return at once: see `wait`."""

    def result(self) -> list[Any]:
        """The tensors that have been written."""
        return self._result

    def source_rank(self) -> int:
        """The process that sent the tensor."""
        return self._source

    def get_future(self) -> Future[list[Any]]:
        """The result as a completed future."""
        future: Future[list[Any]] = Future()
        future.set_result(self._result)
        return future
