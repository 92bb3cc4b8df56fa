"""Equal models in all processes."""

from __future__ import annotations

import json

import numpy as np
from jax.experimental import multihost_utils

from flambeau.core.devices import spanning
from flambeau.core.support.modes import no_grad
from flambeau.distributed.process_group import (
    get_rank,
    get_world_size,
    group_or_world,
    is_initialized,
)
from flambeau.distributed.tensor.modules import members
from flambeau.distributed.tensor.spreading import lies
from flambeau.nn.module import Module
from flambeau.ops.factories.from_data import from_numpy

__all__: list[str] = []


def make_alike(module: Module) -> None:
    """Give all processes the parameters and buffers of the first one.

    Raises:
        RuntimeError: Another process has parameters or buffers of other names, shapes or dtypes.
    """
    if not is_initialized():
        return
    named = {
        name: each for name, each in members(module) if lies(each) is None and not each.is_meta
    }
    mine = [[name, [*each.shape], str(each.dtype)] for name, each in named.items()]
    channel = group_or_world(None).channel
    said = json.dumps(mine).encode()
    all_of_them = [said] if channel is None else channel.exchange(said, "make_alike()")
    for rank, theirs in enumerate(map(json.loads, all_of_them)):
        if theirs != mine:
            other = next((e for e in theirs if e not in mine), f"{len(theirs)} tensors")
            own = next((e for e in mine if e not in theirs), f"{len(mine)} tensors")
            raise RuntimeError(
                "a wrapped module expects the same model across all ranks, but process "
                f"{rank} has {other}, and process {get_rank()} has {own}"
            )
    arrays = [each._read() for each in named.values()]
    everyone = tuple(range(get_world_size()))
    firsts = spanning.run(multihost_utils.broadcast_one_to_all, (arrays,), "make_alike", everyone)
    with no_grad():
        for tensor, elements in zip(named.values(), firsts, strict=True):
            tensor.detach().copy_(from_numpy(np.array(elements)))
