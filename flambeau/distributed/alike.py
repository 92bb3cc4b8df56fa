"""Equal models in all processes."""

from __future__ import annotations

import json
from typing import Any

from flambeau.core.support.modes import no_grad
from flambeau.distributed.exchange import exchanged, from_process
from flambeau.distributed.process_group import get_rank, group_or_world, is_initialized
from flambeau.distributed.tensor.modules import members
from flambeau.distributed.tensor.spreading import lies
from flambeau.nn.module import Module

__all__: list[str] = []


def make_alike(module: Module, group: Any = None) -> None:
    """Give all processes of a group the parameters and buffers of the first one.

    Raises:
        RuntimeError: Another process has parameters or buffers of other names, shapes or dtypes.
    """
    if not is_initialized():
        return
    found = group_or_world(group)
    named = {
        name: each for name, each in members(module) if lies(each) is None and not each.is_meta
    }
    mine = [[name, [*each.shape], str(each.dtype)] for name, each in named.items()]
    said = json.dumps(mine).encode()
    channel = found.channel
    all_of_them = [said] if channel is None else channel.exchange(said, "make_alike()")
    for place, theirs in enumerate(map(json.loads, all_of_them)):
        if theirs != mine:
            other = next((e for e in theirs if e not in mine), f"{len(theirs)} tensors")
            own = next((e for e in mine if e not in theirs), f"{len(mine)} tensors")
            raise RuntimeError(
                "a wrapped module expects the same model across all ranks, but process "
                f"{found.ranks[place]} has {other}, and process {get_rank()} has {own}"
            )
    tensors = [*named.values()]
    results = exchanged(from_process, [each._read() for each in tensors], found, 0)
    with no_grad():
        for tensor, array in zip(tensors, results, strict=True):
            tensor._store(array)
