"""The older interface of profiles: `torch.autograd.profiler`."""

from __future__ import annotations

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.profiler import kineto_available, record_function
from flambeau.profiler import profile as _Profile
from flambeau.profiler.events import EventList, FunctionEvent, FunctionEventAvg

__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "emit_itt", "emit_nvtx", "kineto_available",
    "profile", "record_function",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)


class profile(_Profile):
    """Records the operations of its block; see `flambeau.profiler.profile`.

    Args:
        enabled: Whether anything is recorded.
        use_cuda: Accepted for compatibility, like all arguments that are not listed here.
        use_device: The same.
        record_shapes: Whether shapes of inputs are noted.
        with_flops: Whether floating-point operations are counted.
        profile_memory: Whether the bytes of results are noted.
        with_stack: Accepted for compatibility.
    """

    def __init__(
        self, enabled: bool = True, *, use_cuda: bool = False, use_device: Any = None,
        record_shapes: bool = False, with_flops: bool = False, profile_memory: bool = False,
        with_stack: bool = False, **others: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            record_shapes=record_shapes, with_flops=with_flops, profile_memory=profile_memory
        )
        self.enabled = enabled

    def start(self) -> None:
        """Begin, if recording is enabled."""
        if self.enabled:
            super().start()

    @property
    def function_events(self) -> EventList:
        """The calls."""
        return self.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds in all calls."""
        return self.events().self_cpu_time_total

    def total_average(self) -> FunctionEventAvg:
        """All calls as one sum."""
        return self.events().total_average()

    def table(self, *args: Any, **options: Any) -> str:
        """The calls as a table; see `EventList.table`."""
        return self.events().table(*args, **options)

    def __str__(self) -> str:
        return self.table()


class emit_nvtx:
    """A block that names operators for NVIDIA's tools: it exists by name, but cannot be entered.

    Args:
        enabled: Whether the block has an effect; with ``False`` it can be entered.
        **options: Accepted for compatibility.

    Raises:
        NotImplementedError: The block is entered.
    """

    def __init__(self, enabled: bool = True, **options: Any) -> None:
        self.enabled = enabled

    def __enter__(self) -> Any:
        if self.enabled:
            raise NotImplementedError(
                f"{type(self).__name__} names no operators here: jax.profiler.trace(folder) "
                "records what runs in its block, and jax.profiler.TraceAnnotation(name) names a "
                "part"
            )
        return self

    def __exit__(self, *error: object) -> None:
        pass


class emit_itt(emit_nvtx):
    """The same for Intel's tools."""
