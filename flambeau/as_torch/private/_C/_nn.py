"""`torch._C._nn`: how arguments of `Module.to` are understood, and functions of layers."""

from __future__ import annotations

from typing import Any

from flambeau._absent import absent
from flambeau.core.device import as_device, device
from flambeau.core.dtype import dtype
from flambeau.nn import functional
from flambeau.ops.conversion import parse_to

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    # Functions of `nn.functional` that PyTorch has in C++ alone, which pickles name so.
    if name in vars(functional) and not name.startswith("_"):
        return getattr(functional, name)
    raise absent("flambeau._C._nn", name)


def _parse_to(*args: Any, **kwargs: Any) -> tuple[device | None, dtype | None, bool, Any]:
    """The device, the dtype, whether not to wait, and the memory format that ``to`` is given."""
    where, to, _ = parse_to(args, kwargs)
    # It comes before `copy`, which is the other one that may stand without a name.
    flags = [each for each in args if isinstance(each, bool)]
    non_blocking = bool(kwargs.get("non_blocking", flags[0] if flags else False))
    where = None if where is None else as_device(where)
    return where, to, non_blocking, kwargs.get("memory_format")
