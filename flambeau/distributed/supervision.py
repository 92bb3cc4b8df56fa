"""If one process fails, is lost or never arrives, the others end too, and report the reason.

A process that waits in an XLA collective waits in C++, where no exception reaches it. So two
threads supervise each process. One communicates with the first process: it reports the programs
that this process has begun, and learns which processes have failed or sent no heartbeat. The other,
the watchdog, only reads the clock, so it cannot block.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.core.devices import spanning
from flambeau.distributed.errors import DistBackendError
from flambeau.distributed.store import Store

__all__: list[str] = []

_FAILURES, _BEATS, _ENDS = "failure/", "beat/", "end/"
#: The seconds between two checks for failures of other processes, or for the end of all.
_LOOK, _FIRST_PAUSE = 0.5, 0.01
#: The maximum seconds between two heartbeats.
_BEAT = 5.0
#: The seconds for a last message to the first process, or for a last check.
_LAST_LOOK = 5.0
#: The exit code of a process ended by another one's failure or by the watchdog.
EXIT_CODE = 1


class _Supervision:
    """The threads that look after this process.

    Args:
        store: The store for the messages.
        world: The number of processes.
        seconds: The time that a process waits for the others in a program that spans all of them.
        silence: The maximum time without a heartbeat.
    """

    def __init__(self, store: Store, world: int, seconds: float, silence: float) -> None:
        self.store = store
        self.world = world
        self.seconds = seconds
        self.silence = silence
        #: The last message of each process, and the processes that have ended normally.
        self.beats: dict[str, bytes] = {}
        self.ends: dict[str, bytes] = {}
        self.is_waiting = False
        self.has_heard = False
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=each, name=f"flambeau-{each.__name__.strip('_')}", daemon=True)
            for each in (self._talk, self._watchdog)
        ]
        for each in self._threads:
            each.start()

    def end(self) -> None:
        """End the threads: Python must not exit while one is in JAX's C++ code."""
        self._ended.set()
        for each in self._threads:
            each.join(_LAST_LOOK)

    def end_with_others(self) -> None:
        """End the threads once all processes have reported that they end normally.

        Until then they supervise this process: JAX would wait for the others too, but only for some
        minutes, and without reports of failures in between.
        """
        _in_time(lambda: self.store.set(f"{_ENDS}{self.store.rank}", self._begun()))
        pause = _FIRST_PAUSE
        with contextlib.suppress(Exception):  # The service has ended.
            while len(self.store.all_of(_ENDS)) < self.world:
                time.sleep(pause)
                pause = min(2 * pause, _LOOK)
        self.end()

    def _begun(self) -> bytes:
        """The number of programs over all processes begun here, and the name of the last."""
        return json.dumps(spanning.begun.get(self.world, (0, ""))).encode()

    def _talk(self) -> None:
        """Report the programs begun here to the first process, and read others' reports."""
        pause = min(_BEAT, self.silence / 4, self.seconds / 4)
        look, me = min(_LOOK, pause), self.store.rank
        number, last = 0, 0.0
        silent = dict.fromkeys((str(rank) for rank in range(self.world) if rank != me), 0.0)
        before = time.monotonic()
        while not self._ended.wait(look):
            try:
                for rank, reason in self.store.all_of(_FAILURES).items():
                    if int(rank) != me and not self._ended.is_set():
                        self._leave(reason.decode(errors="replace"))
                if time.monotonic() - last >= pause:
                    number, last = number + 1, time.monotonic()
                    beat = f"{number} ".encode() + self._begun()
                    self.store.set(f"{_BEATS}{me}", beat)
                known = self.beats
                if me == 0 or self.is_waiting:
                    self.ends = self.store.all_of(_ENDS)
                    self.beats = self.store.all_of(_BEATS)
            except Exception:  # noqa: BLE001 - the service has gone, or is slow to answer.
                if not self.store.is_connected():
                    return
                continue
            self.has_heard = True
            # If this process was suspended for a while, the others were not silent for so long.
            passed = min(time.monotonic() - before, 2 * look)
            before = time.monotonic()
            for rank in silent if me == 0 else ():
                beat = self.beats.get(rank)
                is_alive = rank in self.ends or beat != known.get(rank)
                silent[rank] = 0.0 if is_alive else silent[rank] + passed
                if silent[rank] > self.silence:
                    self.fail(
                        f"process {rank} has given no sign of life for {self.silence:g} s: it was "
                        "killed or stopped, or its machine is lost"
                    )

    def _watchdog(self) -> None:
        """End the process if it waits for others for too long."""
        pause = min(_LOOK, self.seconds / 8, self.silence / 8)
        waited: dict[int, float] = {}
        unheard, before = 0.0, time.monotonic()
        while not self._ended.wait(pause):
            passed = min(time.monotonic() - before, 2 * pause)
            before = time.monotonic()
            running = spanning.waiting.copy()
            waited = {each: waited.get(each, -passed) + passed for each in running}
            longest = max(waited, key=lambda each: waited[each], default=None)
            self.is_waiting = longest is not None and waited[longest] > min(_BEAT, self.seconds / 2)
            if longest is not None:
                self._check(waited[longest], *running[longest])
            unheard = 0.0 if self.has_heard else unheard + passed
            self.has_heard = False
            if unheard > self.silence and self.store.is_connected():
                self._leave(
                    f"process 0 has not answered for {self.silence:g} s: it was killed or "
                    "stopped, or its machine is lost"
                )

    def _check(self, waited: float, name: str, processes: tuple[int, ...], count: int) -> None:
        """Fail if this process has waited for too long, or for a process that has ended."""
        is_late = waited > self.seconds
        if not is_late and not (self.is_waiting and self.ends):
            return
        me, missing = self.store.rank, []
        is_of_all = len(processes) == self.world
        for rank in processes:
            end = self.ends.get(str(rank))
            beat = end or self.beats.get(str(rank), b"").partition(b" ")[2] or b'[0, ""]'
            begun, last = json.loads(beat)
            if rank == me or not is_of_all or begun >= count:
                continue
            after = f", the last of them {last!r}" if begun else ""
            has = "has ended, and had" if end is not None else "has"
            if is_late or end is not None:
                missing.append(f"process {rank} {has} begun {begun}{after}")
        if not is_late and not missing:
            return
        number = f", the program number {count} over all processes" if is_of_all else ""
        others = "; ".join(missing) or f"the processes {[*processes]} take part, and all are there"
        self.fail(
            f"process {me} has waited for {waited:.0f} s{' (timeout)' if is_late else ''} in "
            f"{name!r}{number}: {others}. Every process has to run the same steps and collectives "
            "in the same order; init_process_group(timeout=...) says how long one waits"
        )

    def fail(self, reason: str) -> None:
        """End this process, after notifying the others."""
        if self._ended.is_set():
            return
        _tell(self.store, reason)
        if self.store.rank == 0:
            # The failure is stored in this process; the others must read it first.
            time.sleep(3 * _LOOK)
        self._leave(reason)

    def _leave(self, why: str) -> None:
        sys.stderr.write(f"flambeau: process {self.store.rank} of {self.world} ends: {why}\n")
        _leave()


class _State:
    """The supervision of this process, if it is one of several."""

    supervision: _Supervision | None = None
    has_failed = False
    knows_of_end = False


_state = _State()


def supervise(store: Store, world: int, seconds: float, silence: float) -> None:
    """End this process if another fails or is lost, and notify the others if this one fails.

    Args:
        store: The store for the messages.
        world: The number of processes.
        seconds: The time that a process waits for the others in a program that spans all of them.
        silence: The maximum time without a heartbeat.
    """
    if _state.supervision is not None:
        _state.supervision.end()
    if not _state.knows_of_end:
        _state.knows_of_end = True
        sys.excepthook = _telling(sys.excepthook)
        # It runs before JAX's hook, which waits for processes that wait for this one.
        atexit.register(_end)
    spanning.explain = _explain
    _state.supervision = _Supervision(store, world, seconds, silence)


def leave(error: BaseException | None) -> bool:
    """Disconnect from the other processes, when all of them do.

    Args:
        error: The error for which this process leaves, if any. The others are then notified and
            end, and this process continues, so that its error is printed.

    Returns:
        Whether all have left.
    """
    supervision = _state.supervision
    if supervision is not None and error is not None:
        _fail(supervision.store, error)
        return False
    _state.supervision = spanning.explain = None
    if supervision is not None:
        supervision.end_with_others()
    return True


@contextlib.contextmanager
def ends_after(seconds: float, reason: str) -> Iterator[None]:
    """A block that ends the process, with a message, if the block does not end in time."""

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


def _explain(name: str, error: Exception) -> None:
    """Raise an error that explains a failed collective, if it is one.

    Raises:
        DistBackendError: The connection to another process is lost.
    """
    text = str(error)
    if "Gloo" not in text and "NCCL" not in text:
        return
    # If the other process has failed and reported the reason, this one exits with it.
    time.sleep(3 * _LOOK)
    raise DistBackendError(
        f"{name!r} has lost the connection to another process, which was killed or has ended: "
        f"{text.partition(chr(10))[0]}"
    ) from error


def _tell(store: Store, reason: str) -> None:
    """Notify the other processes why this one ends, if the first can be reached."""
    _in_time(lambda: store.set(f"{_FAILURES}{store.rank}", reason.encode()[:2000]))


def _in_time(call: Callable[[], None]) -> None:
    """Call a function of the service that may never return."""

    def quietly() -> None:
        with contextlib.suppress(Exception):
            call()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    thread.join(_LAST_LOOK)


def _fail(store: Store, error: BaseException) -> None:
    _state.has_failed = True
    _tell(store, f"process {store.rank} has failed with {type(error).__name__}: {error}")


def _telling(before: Any) -> Any:
    """The hook for an uncaught exception: calls the previous hook, and then notifies the others."""

    def hook(kind: Any, error: Any, trace: Any) -> None:
        before(kind, error, trace)
        if _state.supervision is not None:
            _fail(_state.supervision.store, error)

    return hook


def _end() -> None:
    supervision = _state.supervision
    if supervision is None:
        return
    if not _state.has_failed:
        supervision.end_with_others()
    else:
        supervision.end()
        if supervision.store.rank == 0:
            # The failure is stored in this process; the others must read it first.
            time.sleep(2 * _LOOK)
        _leave()


def _leave() -> None:
    """Exit at once: a thread that waits in a collective cannot be interrupted."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(EXIT_CODE)
