"""Streams and events of NVIDIA GPUs; see `flambeau.streams`."""

from __future__ import annotations

from typing import Any

from flambeau.cuda.devices import place_of, set_device
from flambeau.streams import Event as _Event
from flambeau.streams import Stream as _Stream

__all__ = [
    "Event", "Stream", "StreamContext", "current_stream", "default_stream",
    "is_current_stream_capturing", "set_stream", "stream",
]  # fmt: skip


class Stream(_Stream):
    """A stream of a GPU.

    Args:
        device: The GPU; by default the first.
        priority: Accepted for compatibility, like all options.

    Raises:
        RuntimeError: There is no GPU.
    """

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        super().__init__(place_of(device))

    def _event(self) -> Event:
        result = Event()
        result.device = self.device
        return result


class Event(_Event):
    """An event on a GPU.

    Args:
        enable_timing: Whether `elapsed_time` will be called.
        blocking: Accepted for compatibility, like ``interprocess`` and ``external``.

    Raises:
        RuntimeError: There is no GPU.
    """

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> None:
        super().__init__(place_of(None), enable_timing=enable_timing)


class StreamContext:
    """A context manager that selects a stream; each device has only one.

    Args:
        stream: The stream; ``None`` for none.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        """Do nothing: entering changed no setting."""


def stream(stream: Any) -> StreamContext:
    """A context manager that selects a stream; each device has only one."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The stream of a GPU, by default of the first.

    Raises:
        RuntimeError: There is no GPU.
    """
    return Stream(device)


default_stream = current_stream


def set_stream(stream: Any) -> None:
    """Set the current stream, which can only be the first GPU's; ``None`` has no effect."""
    if stream is not None:
        set_device(stream.device)


def is_current_stream_capturing() -> bool:
    """``False``: there are no CUDA graphs."""
    return False
