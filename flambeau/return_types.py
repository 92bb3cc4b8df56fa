"""Named tuples that operators with several results return."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

__all__ = [
    "aminmax", "cummax", "cummin", "frexp", "kthvalue", "max", "median", "min", "mode",
    "nanmedian", "sort", "topk",
]  # fmt: skip


def named(name: str, *fields: str) -> Any:
    """A named tuple type that prints as PyTorch's: one field a line, under this module's name."""
    made = namedtuple(name, fields)

    def represent(self: Any) -> str:
        shown = ",\n".join(f"{key}={value!r}" for key, value in zip(fields, self, strict=True))
        return f"{__name__}.{name}(\n{shown})"

    made.__repr__ = represent
    made.__module__ = __name__
    made.__doc__ = f"What `flambeau.{name}` returns: {' and '.join(fields)}."
    return made


aminmax = named("aminmax", "min", "max")
cummax = named("cummax", "values", "indices")
cummin = named("cummin", "values", "indices")
frexp = named("frexp", "mantissa", "exponent")
kthvalue = named("kthvalue", "values", "indices")
max = named("max", "values", "indices")
median = named("median", "values", "indices")
min = named("min", "values", "indices")
mode = named("mode", "values", "indices")
nanmedian = named("nanmedian", "values", "indices")
sort = named("sort", "values", "indices")
topk = named("topk", "values", "indices")
