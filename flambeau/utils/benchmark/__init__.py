"""Timing statements: `torch.utils.benchmark`."""

from flambeau._absent import Absent as _Absent
from flambeau.utils.benchmark.compare import Compare
from flambeau.utils.benchmark.measurement import Measurement, TaskSpec
from flambeau.utils.benchmark.timer import Timer, timer

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "timer"]

__getattr__: _Absent = _Absent(__name__)
