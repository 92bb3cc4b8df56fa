"""The programs that a script used in its last run, loaded before this run asks for them.

XLA loads a program without Python's lock, so a thread loads them while the script builds its model
and begins its first step. The largest come first. If the script needs a program that the thread has
not begun to load, the script's own thread loads it.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.core.devices.compiler import cores
from flambeau.core.programs.store import Store

# The number of a script's first programs that the note lists.
_MOST = 128

# Seconds after which unused programs are dropped, and the note is written.
_PATIENCE = 60.0

# Seconds to wait for a program that the thread is loading. The thread may be waiting for a module
# whose import asks for the program.
_WAIT = 10.0

_KEY = re.compile(r"[0-9a-f]{40}")


class ReadAhead:
    """A thread that loads the programs of a script's last run.

    A note in the store lists their keys: those of the last run, then those that only the run before
    it used, so that a run that ends early loses none.

    Args:
        kept: The store of the programs and the note.
        name: The note's key.
        load: Returns the program stored under a key; ``None`` if there is none.
    """

    def __init__(self, kept: Store, name: str, load: Callable[[str], Any]) -> None:
        self._kept = kept
        self._name = name
        self._load = load
        self._asked: dict[str, None] = {}
        # The key of the program that is being loaded, and a lock that is held during the load.
        self._loading: tuple[str, threading.Lock] | None = None
        self._ready: dict[str, Any] = {}
        self._is_over = False
        self._running = _held_lock()
        self._thread = threading.Thread(target=self._run, name="flambeau-read-ahead", daemon=True)

    def start(self) -> None:
        """Start loading. When the process ends, the thread ends first."""
        atexit.register(self.end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._give_up)
        self._thread.start()

    def take(self, key: str) -> Any:
        """The program of ``key``; waits for it if it is being loaded.

        ``None`` if the thread has not begun it: the caller loads it, and the thread skips it.
        """
        if self._is_over:
            return None
        # This thread writes `_asked` and then reads `_loading`; the loading thread does the
        # reverse. So one of them sees the other without a lock, which an interrupt might leave
        # locked.
        self._asked[key] = None
        loading = self._loading
        if loading is not None and loading[0] == key and loading[1].acquire(timeout=_WAIT):
            loading[1].release()
        return self._ready.pop(key, None)

    def end(self) -> None:
        """Write the note, and drop unused programs."""
        self._is_over = True
        if self._running.locked():
            self._running.release()
        if self._thread.ident is not None:  # Unless `start` was interrupted.
            self._thread.join()

    def _run(self) -> None:
        last, before = self._noted()
        for key in sorted({*last, *before}, key=self._kept.size_of, reverse=True):
            if self._is_over:
                break
            ended = _held_lock()
            self._loading = key, ended
            try:
                if key not in self._asked and (program := self._load(key)) is not None:
                    self._ready[key] = program
            finally:
                self._loading = None
                ended.release()
        self._running.acquire(timeout=_PATIENCE)
        self._is_over = True
        self._ready.clear()
        used = list(self._asked)[:_MOST]
        self._write(used, [each for each in last if each not in used])

    def _noted(self) -> tuple[list[str], list[str]]:
        """The keys that the last run used, and those that only the run before it used."""
        text = (self._kept.get(self._name) or b"").decode("ascii", "replace")
        last, _, before = text.partition("\n\n")
        return _KEY.findall(last), _KEY.findall(before)

    def _write(self, used: list[str], unused: list[str]) -> None:
        text = "\n".join(used) + "\n\n" + "\n".join(unused)
        self._kept.put(self._name, text.encode())

    def _give_up(self) -> None:
        """Stop reading ahead, in a forked process, which has no such thread."""
        self._loading, self._is_over = None, True
        self._ready = {}


def read_ahead(kept: Store, load: Callable[[str], Any]) -> ReadAhead | None:
    """The `ReadAhead` of the running script, started.

    ``None`` without a script, on a single core, and in worker processes.
    """
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script is None or cores() < 2 or _is_a_worker():
        return None
    name = f"the programs of {Path(script).resolve()}"
    return ReadAhead(kept, hashlib.blake2b(name.encode(), digest_size=20).hexdigest(), load)


def _held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def _is_a_worker() -> bool:
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None
