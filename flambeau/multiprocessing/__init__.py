"""Python's `multiprocessing`, and `spawn`.

Tensors are pickled, since their elements cannot be shared. Use the start method ``"spawn"``: JAX
runs threads, which do not survive a fork.
"""

import multiprocessing as _multiprocessing
from multiprocessing import *  # pyright: ignore[reportWildcardImportFromLibrary]

from flambeau._absent import Absent as _Absent
from flambeau.core.support.settings import setting
from flambeau.multiprocessing.reductions import init_reductions as init_reductions
from flambeau.multiprocessing.spawn import ProcessContext as ProcessContext
from flambeau.multiprocessing.spawn import ProcessExitedException as ProcessExitedException
from flambeau.multiprocessing.spawn import ProcessRaisedException as ProcessRaisedException
from flambeau.multiprocessing.spawn import SpawnContext as SpawnContext
from flambeau.multiprocessing.spawn import spawn as spawn
from flambeau.multiprocessing.spawn import start_processes as start_processes

__all__ = [  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll]
    *_multiprocessing.__all__,
    "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
    "get_all_sharing_strategies", "get_sharing_strategy", "init_reductions",
    "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip

__getattr__: _Absent = _Absent(__name__)

_STRATEGIES = {"file_descriptor", "file_system"}
_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """The strategies that `set_sharing_strategy` accepts."""
    return set(_STRATEGIES)


@setting
def get_sharing_strategy() -> str:
    """The last value given to `set_sharing_strategy`."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted for compatibility: tensors are pickled, not shared.

    Raises:
        AssertionError: There is no such strategy.
    """
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"{new_strategy!r} is not one of {', '.join(sorted(_STRATEGIES))}")
    _strategy = new_strategy
