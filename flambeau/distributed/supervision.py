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
from collections.abc import Iterator
from typing import Any

from flambeau.distributed.store import Store

__all__: list[str] = []

_FAILURE = "failure"
#: For how long the thread waits at a time; JAX's service would keep a longer wait from ending.
_LOOK = 3600.0
EXIT_CODE = 1


class _Supervised:
    """The processes that this one ends with, if there are any."""

    store: Store | None = None
    world = 0
    has_failed = False
    knows_of_end = False


_supervised = _Supervised()


def supervise(store: Store | None, world: int) -> None:
    """End this process when another fails, and tell the others when this one does.

    Args:
        store: Where processes tell each other; ``None`` to stop.
        world: The number of processes.
    """
    _supervised.store, _supervised.world = store, world
    if store is None:
        return
    if not _supervised.knows_of_end:
        _supervised.knows_of_end = True
        sys.excepthook = _telling(sys.excepthook)
        # It runs before JAX's, which waits for processes that wait for this one.
        atexit.register(_end)
    threading.Thread(target=_watch, args=(store,), name="flambeau-supervision", daemon=True).start()


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
            reason = f"{store.rank} {kind.__name__}: {error}"
            store.set(_FAILURE, reason.encode()[:2000])

    return hook


def _end() -> None:
    if _supervised.has_failed:
        _leave()


def _watch(store: Store) -> None:
    while _supervised.store is store:
        try:
            text = store.wait_for(_FAILURE, _LOOK)
        except TimeoutError:
            continue
        except Exception:  # noqa: BLE001 - the service has gone: JAX says so, or all have ended.
            return
        rank, _, reason = text.decode().partition(" ")
        if _supervised.store is store and int(rank) != store.rank:
            sys.stderr.write(
                f"flambeau: process {store.rank} of {_supervised.world} ends, since process {rank} "
                f"has failed with {reason}\n"
            )
            _leave()
        return


def _leave() -> None:
    """End at once: whoever waits in a collective cannot be called back."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(EXIT_CODE)
