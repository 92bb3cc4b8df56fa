"""Counts of compiled and loaded programs, their times, and the line on the terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

# Compilations up to this many seconds are not shown.
_UNNOTICED = 2.0

# The line is removed after this many seconds without compiling.
_IDLE = 0.5


class Statistics:
    """The numbers of compiled and loaded programs, and the seconds for them, by function."""

    def __init__(self) -> None:
        self.compiled: dict[str, tuple[int, float]] = {}
        self.loaded: dict[str, tuple[int, float]] = {}
        self.interpreted: dict[str, int] = {}
        self.ahead = 0
        #: Sequences of eager calls that one program has computed, and sequences that it has not.
        self.fused = 0
        self.left = 0
        self._lock = threading.Lock()
        self._progress = _Progress()

    @contextlib.contextmanager
    def working(self, name: str) -> Iterator[None]:
        """A block that compiles or loads ``name``, shown on the terminal if it takes long."""
        with self._progress.of(name):
            yield

    def add(self, into: dict[str, tuple[int, float]], name: str, began: float) -> None:
        """Count one more program, begun at ``began`` by `time.perf_counter`."""
        took = time.perf_counter() - began
        with self._lock:
            count, seconds = into.get(name, (0, 0.0))
            into[name] = (count + 1, seconds + took)

    def count(self, name: str) -> None:
        """Count one more call of ``name`` that was evaluated without a program."""
        # Without the lock: two threads may count as one, but an interrupt leaves no lock held.
        self.interpreted[name] = self.interpreted.get(name, 0) + 1


class _Progress:
    """A line on the terminal about the running compilation, if it takes noticeably long."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._ended = 0.0
        self._name = ""
        self._count = self._running = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[None]:
        """A block that compiles ``name``."""
        if not _is_wanted():
            yield
            return
        with self._lock:
            self._name, self._count, self._running = name, self._count + 1, self._running + 1
            if self._began is None:
                self._began, self._count = time.monotonic(), 1
                threading.Thread(target=self._watch, name="flambeau-progress", daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._ended = time.monotonic()

    def _watch(self) -> None:
        """Update the line periodically until nothing is being compiled."""
        shown = False
        while True:
            time.sleep(0.2)
            with self._lock:
                assert self._began is not None
                now = time.monotonic()
                if not self._running and now - self._ended > _IDLE:
                    self._began = None
                    break
                seconds, count, name = now - self._began, self._count, self._name
            if seconds > _UNNOTICED:
                shown = True
                _write(f"flambeau: compiling {name} (program {count}, {seconds:.0f} s)")
        if shown:
            _write("")


def _write(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"\r{line}\033[K")
        sys.stderr.flush()


def _is_wanted() -> bool:
    """``FLAMBEAU_PROGRESS``, or else whether the output is a terminal and no test is running."""
    wanted = os.environ.get("FLAMBEAU_PROGRESS")
    if wanted is not None:
        return wanted != "0"
    try:
        return sys.stderr.isatty() and "PYTEST_VERSION" not in os.environ
    except (AttributeError, ValueError):
        return False  # No stderr, or a closed one.


#: The process's counts.
statistics: Statistics = Statistics()
