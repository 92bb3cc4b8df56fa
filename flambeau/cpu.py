"""The functions of `flambeau.cuda` that code for any device calls, for the CPU: `torch.cpu`.

A CPU is one device, and JAX orders the work on it: streams and events have nothing to do.
"""

from __future__ import annotations

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.core.device import CPU
from flambeau.cuda.devices import wait_for

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count",
    "is_available", "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)


def is_available() -> bool:
    """``True``."""
    return True


def is_initialized() -> bool:
    """``True``."""
    return True


def device_count() -> int:
    """1, however many cores there are."""
    return 1


def current_device() -> str:
    """``"cpu"``."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one."""


def synchronize(device: Any = None) -> None:
    """Wait until the CPU has done all that it was given."""
    wait_for(CPU.jax_device)


class Stream:
    """The one order in which the CPU works."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Nothing: what was given first is done first."""

    def record_event(self) -> None:
        """Nothing."""

    def wait_event(self, event: Any) -> None:
        """Nothing: what was given first is done first."""


class Event:
    """A point in the one order in which the CPU works."""

    def query(self) -> bool:
        """``True``: whatever reads a tensor waits for it."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing."""

    def synchronize(self) -> None:
        """Nothing: whatever reads a tensor waits for it."""

    def wait(self, stream: Any = None) -> None:
        """Nothing: what was given first is done first."""


class StreamContext:
    """A block that works in a stream, of which there is one."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        """Nothing has changed."""


def stream(stream: Stream) -> StreamContext:
    """A block that works in a stream, of which there is one."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The one stream."""
    return _STREAM


_STREAM = Stream()
