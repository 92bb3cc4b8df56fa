"""When one process fails, the others end too, and say why.

A process that waits in one of XLA's collectives waits in C++, where no exception reaches it. So a
thread of each process waits for another's failure and ends the process. A process that was killed
cannot tell: JAX misses its heartbeats, and ends the others with a message of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from flambeau.distributed.store import Store

__all__: list[str] = []

_FAILURES = "failure/"
#: Seconds between two looks for a failure of another process.
_LOOK = 0.5
#: Seconds that a look may take when the process ends.
_LAST_LOOK = 5.0
EXIT_CODE = 1


class _Supervised:
    """The processes that this one ends with, if there are any."""

    store: Store | None = None
    world = 0
    has_failed = False
    ended = threading.Event()
    thread: threading.Thread | None = None
    knows_of_end = False


_supervised = _Supervised()


def supervise(store: Store | None, world: int) -> None:
    """End this process when another fails, and tell the others when this one does.

    Args:
        store: Where processes tell each other; ``None`` to stop.
        world: The number of processes.
    """
    _stop()
    _supervised.store, _supervised.world = store, world
    if store is None:
        return
    if not _supervised.knows_of_end:
        _supervised.knows_of_end = True
        sys.excepthook = _telling(sys.excepthook)
        # It runs before JAX's, which waits for processes that wait for this one.
        atexit.register(_end)
    _supervised.ended = threading.Event()
    _supervised.thread = threading.Thread(
        target=_watch, args=(store, _supervised.ended), name="flambeau-supervision", daemon=True
    )
    _supervised.thread.start()


def _stop() -> None:
    """End the thread: Python must not end while it is in JAX's C++."""
    _supervised.ended.set()
    if _supervised.thread is not None:
        _supervised.thread.join(_LAST_LOOK)
        _supervised.thread = None


@contextlib.contextmanager
def ends_after(seconds: float, reason: str) -> Iterator[None]:
    """A block that ends the process, with a message, if it does not end itself in time."""

    def end() -> None:
        sys.stderr.write(f"flambeau: this process ends, since {reason}\n")
        _leave()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _telling(before: Any) -> Any:
    """What Python calls for an uncaught exception: as before, and then it tells the others."""

    def hook(kind: Any, error: Any, trace: Any) -> None:
        before(kind, error, trace)
        store = _supervised.store
        if store is not None:
            _supervised.has_failed = True
            reason = f"{kind.__name__}: {error}"
            store.set(f"{_FAILURES}{store.rank}", reason.encode()[:2000])

    return hook


def _end() -> None:
    _stop()
    if _supervised.has_failed:
        if _supervised.store is not None and _supervised.store.rank == 0:
            # The failure is kept in this process; the others have to read it first.
            time.sleep(2 * _LOOK)
        _leave()


def _watch(store: Store, ended: threading.Event) -> None:
    while not ended.wait(_LOOK):
        try:
            failures = store.all_of(_FAILURES)
        except Exception:  # noqa: BLE001 - the service has gone: JAX says so, or all have ended.
            return
        for rank, reason in failures.items():
            if int(rank) != store.rank and not ended.is_set():
                sys.stderr.write(
                    f"flambeau: process {store.rank} of {_supervised.world} ends, since process "
                    f"{rank} has failed with {reason.decode(errors='replace')}\n"
                )
                _leave()


def _leave() -> None:
    """End at once: whoever waits in a collective cannot be called back."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(EXIT_CODE)
