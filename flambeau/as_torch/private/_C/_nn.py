"""`torch._C._nn`: the parser of `Module.to` arguments, and layer functions."""

from __future__ import annotations

from typing import Any

from flambeau._absent import absent
from flambeau.core.devices.device import as_device, device
from flambeau.core.support.dtype import dtype
from flambeau.nn import functional
from flambeau.ops.factories.conversion import parse_to

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    # Functions of `nn.functional` that PyTorch implements in C++ only, under the names in pickles.
    if name in vars(functional) and not name.startswith("_"):
        return getattr(functional, name)
    raise absent("flambeau._C._nn", name)


def _parse_to(*args: Any, **kwargs: Any) -> tuple[device | None, dtype | None, bool, Any]:
    """The device, dtype, ``non_blocking`` and memory format among the arguments of ``to``."""
    where, to, _ = parse_to(args, kwargs)
    # It precedes `copy`, the other flag that may be positional.
    flags = [each for each in args if isinstance(each, bool)]
    non_blocking = bool(kwargs.get("non_blocking", flags[0] if flags else False))
    where = None if where is None else as_device(where)
    return where, to, non_blocking, kwargs.get("memory_format")
