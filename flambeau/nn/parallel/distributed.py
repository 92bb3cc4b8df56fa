"""`DistributedDataParallel`, defined in `flambeau.distributed`."""

from __future__ import annotations

from typing import Any

from flambeau._absent import absent
from flambeau.core.support.higher import higher

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    # It depends on the layers.
    if name == "DistributedDataParallel":
        return higher("flambeau.distributed.data_parallel.DistributedDataParallel")
    raise absent(__name__, name)
