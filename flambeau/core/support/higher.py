"""Functions of higher modules that lower ones call: the one exception to imports that point down.

A class of a lower room may need a function that is written with the class itself: the rules by
which other operators take its objects, or the reader of its pickles. The function's module imports
the class, so the class finds the function here, at its first call.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

#: The functions and classes that are found so, each with the reason.
HIGHER: dict[str, str] = {
    "flambeau.checkpoint.storage_bytes.read": "a pickle of PyTorch's calls a function of `storage`",
    "flambeau.distributed.data_parallel.DistributedDataParallel": "`nn.parallel` has its name",
    "flambeau.distributed.normalization.batch_norm": "`nn.SyncBatchNorm` exchanges statistics",
    "flambeau.library.compiled.load_library": "PyTorch's `ops` has its name",
    "flambeau.library.registry.namespace": "PyTorch's `ops` has the namespaces of custom operators",
    "flambeau.ops.selections.rules.run": "the operators that take a Selection create some too",
    "flambeau.sparse.rules.run": "the operators that take a sparse tensor create some too",
}


def higher(name: str) -> Callable[..., Any]:
    """The function or class with this name, one of `HIGHER`."""
    assert name in HIGHER
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)
