"""Batch normalization without running statistics, which transformations cannot write."""

from __future__ import annotations

from flambeau.nn.module import Module
from flambeau.nn.modules.batchnorm import _BatchNorm

__all__ = ["replace_all_batch_norm_modules_"]


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Make every batch normalization in a module use the statistics of its batch only.

    The running statistics are dropped: the modules would write them in place, which `vmap` and the
    other transformations forbid.

    Args:
        root: The module, which is changed and returned.

    >>> import flambeau
    >>> from flambeau import nn
    >>> from flambeau.func import replace_all_batch_norm_modules_, vmap
    >>> net = replace_all_batch_norm_modules_(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    >>> vmap(net)(flambeau.ones(4, 5, 2)).shape
    flambeau.Size([4, 5, 3])
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = None
            module.running_var = None
            module.num_batches_tracked = None
            module.track_running_stats = False
    return root
