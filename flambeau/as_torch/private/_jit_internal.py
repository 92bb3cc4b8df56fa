"""`torch._jit_internal`: marks on functions, which TorchScript would read."""

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.jit import Final, _overload, _overload_method, export, ignore, is_scripting, unused
from flambeau.jit.annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3

__all__ = [
    "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Final", "_overload",
    "_overload_method", "export", "ignore", "is_scripting", "unused",
]  # fmt: skip

__getattr__ = _Absent("flambeau._jit_internal")


def _copy_to_script_wrapper(fn: Any) -> Any:
    """The method that it decorates, as it is."""
    return fn
