"""Profiling by operation: `torch.profiler`.

Operators, backward nodes, compiled functions and optimizer steps are timed on the host. The
profiler waits for each of them to attribute the time correctly, so the whole takes longer than
without it. `jax.profiler.trace` records the operations inside XLA's programs.

>>> import flambeau
>>> from flambeau.profiler import profile, record_function
>>> with profile() as recorded:
...     with record_function("mine"):
...         y = flambeau.ones(2) + 1
>>> sorted((each.key, each.count) for each in recorded.key_averages())
[('aten::add', 1), ('mine', 1)]
"""

from flambeau._absent import Absent as _Absent
from flambeau.profiler.profiler import (
    ProfilerAction,
    ProfilerActivity,
    kineto_available,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function",
    "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)
