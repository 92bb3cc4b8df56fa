"""Streams, one for each device, and events.

JAX runs the programs of a device in order, and orders programs across devices by their data
dependencies. Streams therefore never wait for each other, and events only report completion.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from typing import Any

import jax

from flambeau.core.devices.device import as_device, available_devices, device
from flambeau.core.support.modes import modes
from flambeau.core.values.trace import TracedValueError

__all__ = ["Event", "Stream"]


def _usual_place() -> device:
    """The first accelerator, or the CPU where there is none."""
    names = available_devices()
    return device(next((each for each in names if not each.startswith("cpu")), "cpu"))


def _indexed(where: Any) -> device:
    place = _usual_place() if where is None else as_device(where)
    return place if place.index is not None or place.type == "cpu" else device(place.type, 0)


def _mark(place: device) -> Any:
    """An array that is ready when the device has done all that was submitted to it."""
    if modes.trace is not None:
        raise TracedValueError(
            "a compiled function is one program, whose parts have no streams and no events; "
            "record events and wait for streams outside of it"
        )
    # Also under transformations of JAX.
    with jax.ensure_compile_time_eval():
        return jax.device_put(0, place.jax_device).__add__(1)


class Stream:
    """The stream of a device. All streams of a device are equal.

    Entering a stream as a context manager has no effect.

    Args:
        device: The device; by default the first accelerator, or the CPU.
        priority: Accepted for compatibility, like all options.

    Raises:
        RuntimeError: This machine has no such device.

    >>> import flambeau
    >>> stream = flambeau.Stream("cpu")
    >>> with stream:
    ...     x = flambeau.ones(2)
    >>> stream.synchronize()
    >>> stream == flambeau.Stream("cpu")
    True
    """

    stream_id = 0

    def __init__(self, device: Any = None, *, priority: int = 0, **options: Any) -> None:
        self.device: device = _indexed(device)
        _ = self.device.jax_device  # raises if there is no such device

    @property
    def device_index(self) -> int:
        """The index of the device in its type."""
        return self.device.index or 0

    def synchronize(self) -> None:
        """Wait until the device has done all that was submitted to it."""
        jax.effects_barrier()
        _mark(self.device).block_until_ready()

    def query(self) -> bool:
        """Whether the device has done all that was submitted to it."""
        marker = _mark(self.device)
        # Even an idle device takes a moment.
        until = time.monotonic() + 0.001
        while not marker.is_ready():
            if time.monotonic() > until:
                return False
        return True

    def wait_stream(self, stream: Any) -> None:
        """Do nothing: a program waits for its inputs, on any device."""

    def wait_event(self, event: Any) -> None:
        """Do nothing: a program waits for its inputs, on any device."""

    def record_event(self, event: Any = None) -> Any:
        """Record an event, or a new one, and return it."""
        result = self._event() if event is None else event
        result.record(self)
        return result

    def is_capturing(self) -> bool:
        """``False``: there are no CUDA graphs."""
        return False

    def _event(self) -> Event:
        return Event(self.device)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: entering changed no setting."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} device={self.device}>"


class Event:
    """An event on a device.

    Args:
        device: The device; by default the first accelerator, or the CPU.
        enable_timing: Whether `elapsed_time` will be called.
        blocking: Accepted for compatibility, like ``interprocess``.

    Raises:
        RuntimeError: This machine has no such device.

    >>> import flambeau
    >>> begin, end = (flambeau.Event("cpu", enable_timing=True) for _ in range(2))
    >>> begin.record()
    >>> x = flambeau.ones(2, 2) @ flambeau.ones(2, 2)
    >>> end.record()
    >>> begin.elapsed_time(end) > 0
    True
    """

    event_id = 0

    def __init__(
        self,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = _indexed(device)
        _ = self.device.jax_device  # raises if there is no such device
        self._enable_timing = enable_timing
        self._marker: Any = None
        self._moment: _Moment | None = None

    def record(self, stream: Any = None) -> None:
        """Record the programs that have been submitted to the device or the stream.

        Raises:
            CompileError: A compiled function records it.
        """
        if stream is not None:
            self.device: Any = stream.device
        self._marker = _mark(self.device)
        if self._enable_timing:
            self._moment = _Moment(self._marker)
            _watcher(self.device).put(self._moment)

    def query(self) -> bool:
        """Whether all recorded programs are done; ``True`` before it is recorded."""
        return self._marker is None or self._marker.is_ready()

    def synchronize(self) -> None:
        """Wait until all recorded programs are done."""
        if self._marker is not None:
            self._marker.block_until_ready()

    def wait(self, stream: Any = None) -> None:
        """Do nothing: a program waits for its inputs, on any device."""

    def elapsed_time(self, end_event: Any) -> float:
        """Wait for both events and return the milliseconds from this event to another one.

        The host takes the times when it is notified, a few microseconds after completion.

        Raises:
            ValueError: An event was not created with ``enable_timing=True``, or is not recorded.
        """
        if not (self._enable_timing and end_event._enable_timing):
            raise ValueError("both events must be created with argument 'enable_timing=True'")
        began, ended = self._moment, end_event._moment
        if began is None or ended is None:
            raise ValueError("both events must be recorded before calculating elapsed time")
        return (ended.wait() - began.wait()) * 1e3

    def __repr__(self) -> str:
        return f"<{type(self).__name__} device={self.device}>"


class _Moment:
    """The time at which an array became ready."""

    def __init__(self, marker: Any) -> None:
        self._marker = marker
        self._is_known = threading.Event()
        self._seconds = 0.0

    def find(self) -> None:
        """Wait for the array and record the time."""
        try:
            self._marker.block_until_ready()
        finally:
            self._seconds = time.perf_counter()
            self._is_known.set()

    def wait(self) -> float:
        """Wait until the time is known and return it in seconds."""
        self._is_known.wait()
        return self._seconds


@functools.cache
def _watcher(place: device) -> queue.SimpleQueue[_Moment]:
    """The queue of a thread that records completion times of a device, in order."""
    moments: queue.SimpleQueue[_Moment] = queue.SimpleQueue()

    def watch() -> None:
        while True:
            moments.get().find()

    threading.Thread(target=watch, name=f"flambeau events of {place}", daemon=True).start()
    return moments
