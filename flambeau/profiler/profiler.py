"""`profile`, its schedules, and `record_function`."""

from __future__ import annotations

import enum
import os
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax

from flambeau.core.support.modes import ContextDecorator
from flambeau.profiler import recorder as _recording
from flambeau.profiler.events import EventList, FunctionEvent, write_trace
from flambeau.profiler.recorder import Recorder


class ProfilerActivity(enum.Enum):
    """The activities of PyTorch's profiles; the calls of this process are recorded in any case."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """The actions of a profile during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """The supported activities: the CPU, and waiting for a GPU if there is one."""
    found = {ProfilerActivity.CPU}
    if jax.default_backend() == "gpu":
        found.add(ProfilerActivity.CUDA)
    return found


def kineto_available() -> bool:
    """Whether PyTorch's Kineto is available: never, and it is not needed."""
    return False


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:  # fmt: skip
    """A schedule that cycles through waiting, warm-up and recording.

    Args:
        wait: The number of steps without action.
        warmup: The number of steps directly before the recorded ones.
        active: The number of recorded steps.
        repeat: The number of cycles; 0 for no limit.
        skip_first: The number of steps before the first cycle.
        skip_first_wait: Whether the first cycle does not wait.

    Raises:
        AssertionError: A number is negative, or nothing would be recorded.
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            "schedule(): wait, warmup, repeat and skip_first must not be negative, and active must "
            f"be positive; got {wait}, {warmup}, {repeat}, {skip_first} and {active}"
        )
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"schedule(): steps begin with 0, got {step}")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        if repeat and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        is_last = place == length - 1
        return ProfilerAction.RECORD_AND_SAVE if is_last else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """A handler for ``on_trace_ready`` that writes traces to a folder for TensorBoard.

    Raises:
        RuntimeError: The folder cannot be created.
    """

    def write(recorded: Any) -> None:
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        recorded.export_chrome_trace(os.path.join(dir_name, name))

    return write


class profile:
    """A context manager that records the operations in its block.

    Args:
        activities: Accepted for compatibility: the calls of the process are recorded, and the time
            of waiting for other devices than the CPU.
        schedule: The action for each step, from `schedule`; `step` ends a step. Without a schedule
            the whole block is recorded.
        on_trace_ready: Called with the profile when a recording ends.
        record_shapes: Whether to record the shapes of inputs.
        profile_memory: Whether to record the bytes of results.
        with_stack: Accepted for compatibility; stacks are not recorded.
        with_flops: Whether to count floating-point operations (see `utils.flop_counter`).
        with_modules: Whether to record calls of modules, by their paths; see `flambeau.profile`.
        experimental_config: Accepted for compatibility.
        execution_trace_observer: Accepted for compatibility.
        acc_events: Whether to accumulate the recordings of a schedule; else only the last one is
            kept.
        use_cuda: Accepted for compatibility.
        custom_trace_id_callback: Accepted for compatibility.
    """

    schedule: Any
    record_shapes: bool
    profile_memory: bool
    with_stack: bool
    with_flops: bool
    with_modules: bool
    acc_events: bool
    step_num: int

    current_action: Any

    def __init__(
        self, *, activities: Iterable[Any] | None = None, schedule: Any = None,
        on_trace_ready: Callable[[Any], Any] | None = None, record_shapes: bool = False,
        profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
        with_modules: bool = False, experimental_config: Any = None,
        execution_trace_observer: Any = None, acc_events: bool = False, use_cuda: Any = None,
        custom_trace_id_callback: Any = None, post_processing_timeout_s: float | None = None,
    ) -> None:  # fmt: skip
        self.activities: set[Any] | set[ProfilerActivity] = (
            set(activities) if activities else supported_activities()
        )
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self._has_schedule = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.acc_events = with_stack, with_flops, acc_events
        self.with_modules = with_modules
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._recorder: Recorder | None = None
        self._step: FunctionEvent | None = None
        self._events: list[FunctionEvent] = []
        self._metadata: dict[str, Any] = {}

    # Recording

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the first step."""
        self._follow()

    def stop(self) -> None:
        """Stop; the recording is passed to ``on_trace_ready``."""
        was_recording = self._recorder is not None
        self._end()
        if was_recording and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """End a step and begin the next one."""
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._end_step()
        saves = before is ProfilerAction.RECORD_AND_SAVE
        if saves or self.current_action not in _RECORDING:
            was_recording = self._recorder is not None
            self._end()
            if was_recording and saves and self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self._follow()

    def _follow(self) -> None:
        if self.current_action not in _RECORDING:
            return
        if self._recorder is None:
            self._recorder = Recorder(
                self.record_shapes, self.profile_memory, self.with_flops, self.with_modules
            )
            self._recorder.start()
        if self._has_schedule:
            self._step = self._recorder.begin(f"ProfilerStep#{self.step_num}", "user_annotation")

    def _end_step(self) -> None:
        if self._recorder is not None and self._step is not None:
            self._recorder.finish(self._step)
        self._step = None

    def _end(self) -> None:
        self._end_step()
        if self._recorder is None:
            return
        self._recorder.stop()
        found = sorted(self._recorder.events, key=lambda event: event.start)
        self._events = [*self._events, *found] if self.acc_events else found
        self._recorder = None

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Resume or pause inside the block."""
        if enable:
            self._follow()
        else:
            before = self._events
            self._end()
            self._events = [*before, *self._events]

    # Results

    def events(self) -> EventList:
        """The calls, in order of their start."""
        return EventList(self._events)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:  # fmt: skip
        """The averages of calls by name; see `EventList.table`."""
        return self.events().key_averages(group_by_input_shape)

    def export_chrome_trace(self, path: Any) -> None:
        """Write a trace file for Perfetto and Chrome's tracing page; ``.gz`` compresses it."""
        write_trace(path, self._events, self._metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Refuse: stacks are not recorded.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "stacks are not recorded; Python's cProfile, or py-spy, tells which lines call"
        )

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Refuse: XLA's allocations are not recorded.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "jax.profiler.save_device_memory_profile(path) writes what the memory is used for"
        )

    def add_metadata(self, key: str, value: str) -> None:
        """Add a string to traces."""
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value, given as JSON, to traces."""
        import json

        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json


class record_function(ContextDecorator):
    """A context manager or decorator for a named range in a profile.

    Args:
        name: The name.
        args: Further text for the range.
    """

    name: str
    args: str | None

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._open: tuple[Recorder, FunctionEvent] | None = None

    def clone(self) -> record_function:
        """A new range of the same name."""
        return record_function(self.name, self.args)

    def __enter__(self) -> record_function:
        recorder = _recording.recording()
        if recorder is not None:
            self._open = (recorder, recorder.begin(self.name, "user_annotation"))
        return self

    def __exit__(self, *exception: object) -> None:
        if self._open is not None:
            recorder, event = self._open
            recorder.finish(event)
            self._open = None


__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile",
    "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
