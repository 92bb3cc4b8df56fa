"""`torch._C._nn`: how arguments of `Module.to` are understood."""

from __future__ import annotations

from typing import Any

from flambeau._absent import Absent as _Absent
from flambeau.core.device import device
from flambeau.core.dtype import dtype
from flambeau.ops.conversion import parse_to

__all__: list[str] = []

__getattr__ = _Absent("flambeau._C._nn")


def _parse_to(*args: Any, **kwargs: Any) -> tuple[device | None, dtype | None, bool, Any]:
    """The device, the dtype, whether not to wait, and the memory format that ``to`` is given."""
    where, to, _ = parse_to(args, kwargs)
    # It comes before `copy`, which is the other one that may stand without a name.
    flags = [each for each in args if isinstance(each, bool)]
    non_blocking = bool(kwargs.get("non_blocking", flags[0] if flags else False))
    return where, to, non_blocking, kwargs.get("memory_format")
